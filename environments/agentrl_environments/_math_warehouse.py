"""A warehouse that knows what a problem does not say.

In    the facts of a task: orders, and numbers of things, towns and currencies
Out   Office: five tools that look them up; Gossip: three whose numbers never help
Not   arithmetic: that is the calculator's
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from agentrl.errors import ToolError
from agentrl.task import Task
from agentrl.toolbox import Toolbox
from agentrl.tooling import ToolResult, tool

GOODS: Final = ("candles", "honey", "nails", "paint", "rice", "salt", "soap", "tea")
TOWNS: Final = ("Arden", "Bellow", "Corby", "Dunmore", "Elsby", "Fenwick")
CURRENCIES: Final = ("crowns", "dinars", "florins", "talers")
PEOPLE: Final = ("Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Mia", "Tom")
_TABLES: Final[Mapping[str, tuple[tuple[str, ...], int, int]]] = {
    "price": (GOODS, 11, 99),
    "weight": (GOODS, 101, 999),
    "distance": (TOWNS, 101, 999),
    "rate": (CURRENCIES, 3, 29),
    "stock": (GOODS, 101, 999),
    "weather": (TOWNS, 3, 29),
    "age": (PEOPLE, 18, 80),
}
"""What is known about what, and the least and the largest number."""

Facts = dict[str, dict[str, Any]]


def draw_facts(rng: np.random.Generator) -> Facts:
    """Numbers for everything that can be looked up; no orders yet."""
    facts: Facts = {
        table: dict(zip(names, rng.integers(low, high + 1, len(names)).tolist(), strict=True))
        for table, (names, low, high) in _TABLES.items()
    }
    return {**facts, "order": {}}


class _Desk(Toolbox):
    """Tables of the task that is played."""

    def __init__(self) -> None:
        """Nothing is known before the first task."""
        self.facts: Mapping[str, Mapping[str, Any]] = {}

    def start(self, task: Task) -> None:
        """Take the task's facts."""
        self.facts = (task.meta or {}).get("facts", {})

    def release(self) -> None:
        """Forget them."""
        self.facts = {}

    def look_up(self, table: str, name: str) -> str:
        """What a table says."""
        rows = self.facts.get(table, {})
        if name not in rows:
            known = "Orders have numbers." if table == "order" else f"Known: {', '.join(rows)}."
            raise ToolError(f"{table}: there is nothing about {name[:30]!r}. {known}")
        return str(rows[name])


class Office(_Desk):
    """Look up what an order holds, and what is known about goods, towns and currencies."""

    @tool
    def order(self, number: int) -> str:
        """Say what an order holds."""
        return self.look_up("order", str(number))

    @tool
    def price(self, item: str) -> str:
        """Coins for a box of something."""
        return self.look_up("price", item)

    @tool
    def weight(self, item: str) -> str:
        """Grams of a box of something."""
        return self.look_up("weight", item)

    @tool
    def distance(self, town: str) -> str:
        """Kilometres to a town."""
        return self.look_up("distance", town)

    @tool
    def rate(self, currency: str) -> str:
        """How much of a currency one coin is."""
        return self.look_up("rate", currency)


class Gossip(_Desk):
    """Look up what no problem asks for."""

    @tool
    def stock(self, item: str) -> ToolResult:
        """Boxes of something in the warehouse."""
        return self._told("stock", item)

    @tool
    def weather(self, town: str) -> ToolResult:
        """Degrees in a town."""
        return self._told("weather", town)

    @tool
    def age(self, name: str) -> ToolResult:
        """Years of a person."""
        return self._told("age", name)

    def _told(self, table: str, name: str) -> ToolResult:
        return ToolResult(self.look_up(table, name), metrics={"distracted": 1.0})
