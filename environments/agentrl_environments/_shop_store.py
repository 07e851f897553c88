"""The database of a shop: what its tools read and change.

In    a Case; calls, whatever a policy may write
Out   words for the policy, or ToolError; all rows, to compare what is left
Not   the shop's rules: a tool does what it is told, keeping them is the policy's part
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from agentrl.errors import ToolError
from agentrl_environments._shop_cases import Case, money

SCHEMA: Final = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT, postcode TEXT);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, customer INTEGER, status TEXT, delivered TEXT, address TEXT
);
CREATE TABLE items (
    parcel INTEGER, name TEXT, colour TEXT, cents INTEGER, sale INTEGER, state TEXT
);
CREATE TABLE stock (name TEXT, colour TEXT, left INTEGER);
CREATE TABLE payments (parcel INTEGER, name TEXT, cents INTEGER);
"""
TABLES: Final = ("customers", "orders", "items", "stock", "payments")
MAX_ADDRESS = 100
_MOST = 2**63 - 1


class Store:
    """The rows of one episode, in memory."""

    def __init__(self, case: Case) -> None:
        """Fill the tables."""
        self._rows = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._rows.executescript(SCHEMA)
        self._rows.execute("BEGIN")
        self._fill("customers", [(a.id, a.name, a.email, a.postcode) for a in case.accounts])
        self._fill(
            "orders", [(o.id, o.customer, o.status, o.delivered, o.address) for o in case.orders]
        )
        items = [(o.id, item) for o in case.orders for item in o.items]
        self._fill("items", [(n, i.name, i.colour, i.cents, int(i.sale), "") for n, i in items])
        self._fill("stock", case.stock)
        self._rows.execute("COMMIT")

    def close(self) -> None:
        """Forget everything."""
        self._rows.close()

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """All that there is, in an order that does not depend on how it came to be."""
        return {table: sorted(self._all(f"SELECT * FROM {table}")) for table in TABLES}

    def find_customer(self, email: str) -> str:
        """An account and the numbers of its orders."""
        found = self._all(
            "SELECT id, name, postcode FROM customers WHERE email = ?", _clean(email).lower()
        )
        if not found:
            raise ToolError("find_customer: no customer has this e-mail. Ask again.")
        ((number, name, postcode),) = found
        orders = self._all("SELECT id FROM orders WHERE customer = ? ORDER BY id", number)
        listed = ", ".join(str(order) for (order,) in orders)
        return f"customer {number}: {name}, postcode {postcode}; orders {listed}"

    def get_order(self, order: int) -> str:
        """An order, its items, and the colours of them that are in stock."""
        customer, status, delivered, address = self._order("get_order", order)
        head = f"order {order} of customer {customer}: {status} {delivered}".rstrip()
        lines = [f"{head}, to {address}"]
        for name, colour, cents, sale, state in self._all(
            "SELECT name, colour, cents, sale, state FROM items WHERE parcel = ?", order
        ):
            marks = "".join(f", {mark}" for mark in ("sale" * sale, state) if mark)
            lines.append(f"{name}: {colour}, {money(cents)}{marks}; in stock: {self._left(name)}")
        return "\n".join(lines)

    def change_address(self, order: int, address: str) -> str:
        """Send an order elsewhere."""
        self._order("change_address", order)
        text = _clean(address).rstrip(".")
        if not 0 < len(text) <= MAX_ADDRESS:
            raise ToolError(f"change_address: an address has 1 to {MAX_ADDRESS} characters.")
        self._all("UPDATE orders SET address = ? WHERE id = ?", text, order)
        return f"order {order} goes to {text}"

    def cancel_order(self, order: int) -> str:
        """Give up an order."""
        _, status, *_ = self._order("cancel_order", order)
        if status == "cancelled":
            raise ToolError(f"cancel_order: order {order} is cancelled already.")
        self._all("UPDATE orders SET status = 'cancelled' WHERE id = ?", order)
        return f"order {order} is cancelled"

    def refund(self, order: int, item: str) -> str:
        """Pay an item back."""
        name, _, cents = self._item("refund", order, item)
        self._all("UPDATE items SET state = 'refunded' WHERE parcel = ? AND name = ?", order, name)
        self._fill("payments", [(order, name, cents)])
        return f"{name} of order {order}: {money(cents)} is paid back"

    def exchange(self, order: int, item: str, colour: str) -> str:
        """Send an item in another colour."""
        name, before, _ = self._item("exchange", order, item)
        new = _clean(colour).lower()
        if not self._all("SELECT 1 FROM stock WHERE name = ? AND colour = ?", name, new):
            raise ToolError(f"exchange: there is no {name} in {new[:40]}.")
        if new == before:
            raise ToolError(f"exchange: the {name} is {new} already.")
        self._all(
            "UPDATE items SET colour = ?, state = 'exchanged' WHERE parcel = ? AND name = ?",
            new, order, name,
        )  # fmt: skip
        move = "UPDATE stock SET left = left + ? WHERE name = ? AND colour = ?"
        self._all(move, -1, name, new)
        self._all(move, 1, name, before)
        return f"{name} of order {order} comes in {new}"

    def _order(self, tool: str, order: int) -> tuple[Any, ...]:
        found = abs(order) <= _MOST and self._all(
            "SELECT customer, status, delivered, address FROM orders WHERE id = ?", order
        )
        if not found:
            raise ToolError(f"{tool}: there is no order {str(order)[:20]}.")
        return found[0]

    def _item(self, tool: str, order: int, item: str) -> tuple[Any, ...]:
        """Name, colour and price of an item that can still change."""
        _, status, *_ = self._order(tool, order)
        name = _clean(item).lower()
        found = self._all(
            "SELECT name, colour, cents, state FROM items WHERE parcel = ? AND name = ?",
            order, name,
        )  # fmt: skip
        if not found:
            raise ToolError(f"{tool}: order {order} has no {name[:40]!r}.")
        *row, state = found[0]
        if state or status == "cancelled":
            raise ToolError(f"{tool}: the {name} is {state or status} already.")
        return tuple(row)

    def _left(self, name: str) -> str:
        found = self._all(
            "SELECT colour FROM stock WHERE name = ? AND left > 0 ORDER BY colour", name
        )
        return ", ".join(colour for (colour,) in found) or "none"

    def _fill(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        places = ", ".join("?" * len(rows[0]))
        self._rows.executemany(f"INSERT INTO {table} VALUES ({places})", rows)

    def _all(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self._rows.execute(statement, parameters).fetchall()


def _clean(text: str) -> str:
    """Words with single spaces, which SQLite can keep whatever a policy wrote."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


def state_after(case: Case, actions: Iterable[Any]) -> Mapping[str, list[tuple[Any, ...]]]:
    """All rows once those calls were made, in their order."""
    store = Store(case)
    try:
        for name, arguments in actions:
            getattr(store, name)(**arguments)
        return store.rows()
    finally:
        store.close()
