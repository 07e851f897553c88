"""Customer service by rules, over several turns.

In    cases of `_shop_cases.py`: an account, orders, one wish or two, some of them forbidden
Out   Shop: six tools over a database, a customer by script; reward 1 where exactly the right
      rows have changed and the customer was told what is due
Not   a judgement of tone: what was said is searched for numbers and names of rules
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from agentrl.env import ToolEnv
from agentrl.errors import UsageError, suggestion
from agentrl.message import Message, Turn
from agentrl.task import ProceduralTasks, Task, TaskSource
from agentrl.tooling import tool
from agentrl.trajectory import Stop, Trajectory
from agentrl_environments._calls import called
from agentrl_environments._shop_cases import LEVELS, Case, Wish, make_case, money
from agentrl_environments._shop_customer import Customer, opening_words
from agentrl_environments._shop_store import Store, state_after

SIZES = {"train": 50_000, "test": 1_000}
MAX_EMAIL = 100
_NUMBER: Final = re.compile(r"(?<![\w.])\d{5}(?![\w.]*\d)")
"""What numbers of orders and accounts and postcodes look like."""
ASK = "May I have your e-mail and your postcode?"


class Shop(ToolEnv):
    """Customer service over a database, with rules to keep and a customer who asks for more."""

    max_turns = 20
    parallel_tools = False
    system_prompt = (
        "You serve customers of a shop. Rules:\n"
        "1. First ask for e-mail and postcode; both must fit the account. "
        "Before that, change nothing and tell nothing from the records.\n"
        "2. Only the account's own orders.\n"
        "3. Address and cancelling: only while the order is open.\n"
        "4. Refund: only delivered items, up to 30 days after delivery, no sale items.\n"
        "5. Exchange: only delivered items, up to 60 days after delivery, colour in stock.\n"
        "If a rule forbids a wish, change nothing for it and say which: Rule N. "
        "Name rules only then. Always tell the number of the order, and the sum of a refund."
    )

    def __init__(self, difficulty: str = "mixed") -> None:
        """Choose cases: easy (one wish), medium (two), hard (a forbidden one) or mixed."""
        known = ("mixed", *LEVELS)
        if difficulty not in known:
            hint = suggestion(difficulty, known, f"There are {', '.join(known)}.")
            raise UsageError(f"shop: difficulty {difficulty!r} is unknown. {hint}")
        self.difficulty = difficulty
        self._store: Store | None = None

    @classmethod
    def tasks(cls, split: str) -> TaskSource:
        """Cases of all difficulties."""
        return ProceduralTasks(shop_task, SIZES[split], 0, split=split)

    def task_source(self, split: str) -> TaskSource:
        """Cases of the chosen difficulty."""
        make = partial(shop_task, difficulty=self.difficulty)
        return ProceduralTasks(make, SIZES[split], 0, split=split)

    def start(self, task: Task) -> None:
        """Fill a database of its own and brief the customer."""
        meta = task.meta or {}
        self._case = make_case(meta["case"], meta["difficulty"])
        self._customer = Customer(self._case, meta["case"])
        self._found = self._broken = False
        self._store = Store(self._case)

    def release(self) -> None:
        """Forget the database."""
        store, self._store = self._store, None
        if store is not None:
            store.close()

    @tool
    def find_customer(self, email: str) -> str:
        """Find an account by its e-mail."""
        self._found |= email.strip().lower() == self._case.accounts[0].email
        return self._open().find_customer(email)

    @tool
    def get_order(self, order: int) -> str:
        """See an order."""
        return self._open().get_order(order)

    @tool
    def change_address(self, order: int, address: str) -> str:
        """Send an order to another address."""
        return self._changing().change_address(order, address)

    @tool
    def cancel_order(self, order: int) -> str:
        """Cancel a whole order."""
        return self._changing().cancel_order(order)

    @tool
    def refund(self, order: int, item: str) -> str:
        """Pay an item back."""
        return self._changing().refund(order, item)

    @tool
    def exchange(self, order: int, item: str, colour: str) -> str:
        """Swap an item for one of another colour."""
        return self._changing().exchange(order, item, colour)

    def reply(self, turn: Turn) -> str | None:
        """What the customer says; and whether something was told that should not have been."""
        self._broken |= any(_holds(turn.text, secret) for secret in self._secrets())
        return self._customer.hear(turn.text)

    def reward(self, task: Task, trajectory: Trajectory) -> dict[str, float]:
        """A half for `correct`, a quarter each for `state` and `said`; 0 where a rule was broken.

        A state that is right because nothing was to be done earns nothing by itself.
        """
        gold = state_after(self._case, task.answer["do"])
        if self._broken or self._open().rows() != gold:
            return {"state": 0.0, "said": 0.0, "correct": 0.0}
        said = trajectory.stop is Stop.ANSWER and self._told(trajectory, task.answer)
        state = said or bool(task.answer["do"])
        return {"state": 0.25 * state, "said": 0.25 * said, "correct": 0.5 * said}

    def _told(self, trajectory: Trajectory, answer: Mapping[str, Any]) -> bool:
        """Whether the customer heard what is due, the rules that forbid, and no made-up number."""
        heard = "\n".join(turn.text for turn in trajectory.turns if not turn.calls)
        rules = sorted(set(re.findall(r"\brules?\W{0,3}(\d)\b", heard, re.IGNORECASE)))
        due = all(_holds(heard, fact) for fact in answer["say"])
        return (
            due and rules == answer["rules"] and set(_NUMBER.findall(heard)) <= _numbers(self._case)
        )

    def _open(self) -> Store:
        assert self._store is not None
        return self._store

    def _changing(self) -> Store:
        """The database, to be changed: by then the account must have been checked."""
        self._broken |= not (self._found and self._customer.known)
        return self._open()

    def _secrets(self) -> set[str]:
        """What must not be told: to a stranger anything, to the customer what is another's."""
        case, own = self._case, self._case.accounts[0].id
        ours = {case.postcode, *(wish.target for wish in case.wishes)}
        if self._customer.known:
            ours |= _records(case, lambda account: account == own)
            return _records(case, lambda account: account != own) - ours
        return _records(case, lambda account: True) - ours


def _records(case: Case, of: Callable[[int], bool]) -> set[str]:
    """What the database tells of some accounts: postcodes, addresses, prices."""
    orders = [order for order in case.orders if of(order.customer)]
    prices = {money(item.cents) for order in orders for item in order.items}
    postcodes = {account.postcode for account in case.accounts if of(account.id)}
    return postcodes | prices | {order.address for order in orders}


def _numbers(case: Case) -> set[str]:
    """Every number of an order or account and every postcode that there is."""
    accounts = {text for a in case.accounts for text in (str(a.id), a.postcode)}
    return accounts | {str(order.id) for order in case.orders} | {case.postcode}


def shop_task(rng: np.random.Generator, difficulty: str = "mixed") -> Task:
    """One case, as its customer begins it."""
    number = int(rng.integers(1 << 53))
    level = LEVELS[number % len(LEVELS)] if difficulty == "mixed" else difficulty
    case = make_case(number, level, whole=False)
    opening = (
        Message(role="system", content=f"Today is {case.today}."),
        Message(role="user", content=opening_words(case, number)),
    )
    answer = {
        "customer": case.accounts[0].email,
        "do": [list(action) for action in case.actions()],
        "say": [fact for wish in case.wishes for fact in _due(case, wish)],
        "rules": sorted({str(wish.rule) for wish in case.wishes if wish.rule}),
    }
    kinds = [wish.kind if not wish.rule else f"rule_{wish.rule}" for wish in case.wishes]
    return Task(
        opening,
        answer,
        meta={"difficulty": level, "tags": sorted(set(kinds)), "case": number},
        reference=tuple(_scripted(case)),
    )


def _due(case: Case, wish: Wish) -> list[str]:
    """What the customer must be told of a wish."""
    if wish.rule == 1:
        return []
    if wish.kind == "refund" and not wish.rule:
        return [str(wish.order), _price(case, wish)]
    return [str(wish.order)]


def _price(case: Case, wish: Wish) -> str:
    return money(next(i.cents for i in case.order(wish.order).items if i.name == wish.item))


def _holds(text: str, fact: str) -> bool:
    """Whether a text has a number, sum or address by itself; of a sum a last 0 may be missing."""
    least = fact.removesuffix("0") if re.fullmatch(r"\d+\.\d\d", fact) else fact
    if least not in text:
        return False
    pattern = re.escape(least) + "0?" * (least != fact)
    return re.search(rf"(?<![\w.]){pattern}(?!\w)", text) is not None


def _scripted(case: Case) -> list[str]:
    """A solution: ask, check, look at all orders, then each wish in turn."""
    own = case.accounts[0]
    turns = [ASK] * (1 + case.hurried) + [called("find_customer", email=own.email)]
    if case.postcode != own.postcode:
        return [*turns, *["I am sorry, the postcode does not fit. Rule 1."] * 2]
    orders = [order.id for order in case.orders if order.customer == own.id]
    turns.append("\n".join(called("get_order", order=number) for number in orders))
    for wish in case.wishes:
        turns += _refused(wish, orders) if wish.rule else _granted(case, wish)
    return turns


def _refused(wish: Wish, seen: list[int]) -> list[str]:
    looked = [] if wish.order in seen else [called("get_order", order=wish.order)]
    return [*looked, *[f"I am sorry, not for order {wish.order}. Rule {wish.rule}."] * 2]


def _granted(case: Case, wish: Wish) -> list[str]:
    name, arguments = wish.call()
    paid = f" You get {_price(case, wish)} back." if wish.kind == "refund" else ""
    return [called(name, **arguments), f"It is done for order {wish.order}.{paid}"]
