"""Cases of a shop: an account, what its customer wishes, and what the rules say to that.

In    a number and a level
Out   Case: rows of a database, wishes with the rule that forbids each or none, what is to be done
Not   a conversation: `_shop_customer.py` speaks for the customer
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from random import Random
from typing import Final

REFUND_DAYS, EXCHANGE_DAYS = 30, 60
STRANGERS: Final = 5
"""Other accounts, one of which differs from the customer's by a letter of its e-mail."""

FIRST: Final = (
    "Ann",
    "Ben",
    "Cleo",
    "Dan",
    "Eva",
    "Finn",
    "Gil",
    "Ida",
    "Jon",
    "Lea",
    "Mia",
    "Tom",
)
LAST: Final = (
    "Berg",
    "Cole",
    "Dahl",
    "Falk",
    "Hart",
    "Kern",
    "Lund",
    "Moss",
    "Nash",
    "Roth",
    "Vogt",
)
STREETS: Final = ("Mill Lane", "High Street", "Park Road", "Station Road", "Church Hill", "Elm Way")
TOWNS: Final = ("Hove", "Leeds", "York", "Derby", "Bath", "Truro", "Ely", "Wells")
ITEMS: Final = (
    "kettle", "lamp", "backpack", "blanket", "teapot", "clock", "umbrella", "scarf", "vase",
    "toaster", "mirror", "pillow", "radio", "raincoat", "suitcase", "chair", "rug", "wallet",
)  # fmt: skip
TOOLS: Final = {
    "refund": ("refund", "item"),
    "exchange": ("exchange", "item", "colour"),
    "address": ("change_address", "address"),
    "cancel": ("cancel_order",),
}
"""Which tool grants a wish, and what it takes beside the order."""
COLOURS: Final = ("black", "blue", "green", "grey", "red", "white", "yellow")


@dataclass(frozen=True, slots=True)
class Item:
    """One thing of an order; its name occurs once in the orders of an account."""

    name: str
    colour: str
    cents: int
    sale: bool


@dataclass(frozen=True, slots=True)
class Order:
    """What was ordered, and how far it has come."""

    id: int
    customer: int
    status: str
    """open, shipped or delivered."""
    delivered: str
    """A date; empty where it is not there yet."""
    address: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """A customer of the shop."""

    id: int
    name: str
    email: str
    postcode: str


@dataclass(frozen=True, slots=True)
class Wish:
    """One thing that the customer wants."""

    kind: str
    order: int
    item: str
    target: str = ""
    """The new colour or address."""
    rule: int = 0
    """Which forbids it; 0 where none does."""
    named: bool = False
    """Whether the customer says the number of the order at once."""

    def call(self) -> tuple[str, dict[str, str | int]]:
        """The tool that grants it, and its arguments."""
        name, *wanted = TOOLS[self.kind]
        have: dict[str, str | int] = {"order": self.order, "item": self.item}
        return name, {key: have.get(key, self.target) for key in ("order", *wanted)}


@dataclass(frozen=True, slots=True)
class Case:
    """All that an episode begins with."""

    today: date
    accounts: tuple[Account, ...]
    """The customer's is the first."""
    orders: tuple[Order, ...]
    stock: tuple[tuple[str, str, int], ...]
    """Item, colour, how many there are."""
    wishes: tuple[Wish, ...]
    postcode: str
    """What the customer says it is."""
    hurried: bool
    """Whether the customer first asks if the check is needed."""

    def actions(self) -> list[tuple[str, dict[str, str | int]]]:
        """What is to be done, as calls: a tool and its arguments."""
        return [wish.call() for wish in self.wishes if not wish.rule]

    def order(self, number: int) -> Order:
        """An order by its number."""
        return next(order for order in self.orders if order.id == number)


def make_case(number: int, level: str, *, whole: bool = True) -> Case:
    """The case of a number; where it need not be whole, without orders of other accounts."""
    return _Maker(Random(number)).case(*_plan(Random(f"{number} {level}"), level), whole)


def money(cents: int) -> str:
    """A sum as the shop writes it."""
    return f"{cents // 100}.{cents % 100:02d}"


BREACHES: Final = (
    ("refund", "late"), ("refund", "sale"), ("refund", "shipped"), ("exchange", "late"),
    ("exchange", "gone"), ("exchange", "shipped"), ("address", "shipped"), ("address", "delivered"),
    ("cancel", "shipped"), ("cancel", "delivered"), ("refund", "stranger"), ("cancel", "stranger"),
    ("refund", "identity"), ("cancel", "identity"),
)  # fmt: skip
"""What a rule forbids, by the kind of wish and why."""
LEVELS: Final = ("easy", "medium", "hard")
"""One wish; two; one that a rule forbids, alone or beside another."""
_RULES: Final = {"refund": 4, "exchange": 5, "address": 3, "cancel": 3}

Plan = list[tuple[str, str]]


def _plan(rng: Random, level: str) -> tuple[Plan, bool]:
    """Kinds of wishes, each with a breach or none, and whether the customer is in a hurry."""
    kinds = rng.sample(tuple(TOOLS), 2)
    hurried = level != "easy" and rng.random() < 0.3
    if level == "easy":
        return [(kinds[0], "")], hurried
    if level == "medium":
        return [(kind, "") for kind in kinds], hurried
    kind, breach = rng.choice(BREACHES)
    plan = [(kind, breach)]
    if breach != "identity" and rng.random() < 0.5:
        plan.insert(rng.randrange(2), (kinds[0], ""))
    return plan, hurried


@dataclass
class _Maker:
    """Draws the parts of a case, each number and name once."""

    rng: Random
    items: list[str] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    stock: dict[tuple[str, str], int] = field(default_factory=dict)

    def case(self, plan: Plan, hurried: bool, whole: bool) -> Case:
        rng = self.rng
        self.items = rng.sample(ITEMS, len(ITEMS))
        self.numbers: Iterator[int] = iter(rng.sample(range(10_000, 100_000), 24))
        self.today = date(2026, 1, 1) + timedelta(days=rng.randrange(365))
        accounts = self._accounts()
        wishes = [self._wish(kind, breach, accounts) for kind, breach in plan]
        for _ in range(rng.randint(1, 2)):
            self._order(accounts[0].id, *self._any_state())
        own, _, stranger, *_ = accounts
        # Last, so that what is drawn before does not depend on it.
        for account in accounts[1:] if whole else ():
            self._order(account.id, *self._any_state())
        identity = any(breach == "identity" for _, breach in plan)
        return Case(
            self.today,
            accounts,
            tuple(sorted(self.orders, key=lambda order: order.id)),
            tuple((item, colour, count) for (item, colour), count in self.stock.items()),
            tuple(wishes),
            stranger.postcode if identity else own.postcode,
            hurried,
        )

    def _accounts(self) -> tuple[Account, ...]:
        rng = self.rng
        firsts = rng.sample(FIRST, STRANGERS + 1)
        out = []
        for first in firsts:
            last = rng.choice(LAST)
            email = f"{first}.{last}{rng.randint(10, 99)}@post.example".lower()
            out.append(
                Account(next(self.numbers), f"{first} {last}", email, str(next(self.numbers)))
            )
        own = out[0]
        near = own.email.replace("@post", "@past")
        out[1] = Account(out[1].id, own.name, near, out[1].postcode)
        return tuple(out)

    def _wish(self, kind: str, breach: str, accounts: tuple[Account, ...]) -> Wish:
        owner = accounts[2] if breach == "stranger" else accounts[0]
        order = self._order(owner.id, *self._state(kind, breach))
        item = order.items[0]
        if kind == "refund":
            order = self._replaced(order, sale=breach == "sale")
        target = ""
        if kind == "exchange":
            target = self.rng.choice([c for c in COLOURS if c != item.colour])
            self.stock[item.name, target] = 0 if breach == "gone" else self.rng.randint(1, 4)
        elif kind == "address":
            target = self._address()
        rule = {"": 0, "stranger": 2, "identity": 1}.get(breach, _RULES[kind])
        named = breach == "stranger" or self.rng.random() < 0.25
        return Wish(kind, order.id, item.name, target, rule, named)

    def _state(self, kind: str, breach: str) -> tuple[str, int]:
        """Status of the order of a wish, and how many days ago it came."""
        days = {"refund": REFUND_DAYS, "exchange": EXCHANGE_DAYS}.get(kind, 0)
        if breach in ("shipped", "delivered"):
            return breach, self.rng.randint(1, 20)
        if breach == "late":
            # Few days too late more often than many: there the rule is learnt.
            return "delivered", days + 1 + min(self.rng.randrange(30) for _ in range(3))
        return ("delivered", self.rng.randint(1, days)) if days else ("open", 0)

    def _any_state(self) -> tuple[str, int]:
        return self.rng.choice(("open", "shipped", "delivered")), self.rng.randint(1, 90)

    def _order(self, customer: int, status: str, days: int) -> Order:
        delivered = str(self.today - timedelta(days=days)) if status == "delivered" else ""
        items = tuple(self._item() for _ in range(self.rng.randint(1, 2)))
        number = next(self.numbers)
        self.orders.append(Order(number, customer, status, delivered, self._address(), items))
        return self.orders[-1]

    def _item(self) -> Item:
        # Accounts may have the same things; one account has each once.
        name = self.items.pop()
        self.items.insert(0, name)
        rng = self.rng
        colours = rng.sample(COLOURS, 3)
        for colour in colours:
            self.stock.setdefault((name, colour), rng.randint(0, 3))
        return Item(name, colours[0], rng.randint(500, 19_999), rng.random() < 0.25)

    def _replaced(self, order: Order, *, sale: bool) -> Order:
        """The order with its first item on sale or not."""
        first, *rest = order.items
        first = Item(first.name, first.colour, first.cents, sale)
        new = Order(order.id, order.customer, order.status, order.delivered, order.address,
                    (first, *rest))  # fmt: skip
        self.orders[self.orders.index(order)] = new
        return new

    def _address(self) -> str:
        rng = self.rng
        return f"{rng.randint(1, 99)} {rng.choice(STREETS)}, {rng.choice(TOWNS)}"
