"""Question and Choice: what is asked of the selection, and what it answers.

In    plain settings, checked one by one and together
Out   records that the solvers share
Not   rows (pool.py), nor a report: reported.py makes one of the choice
"""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrl.errors import UsageError, suggestion
from agentrl.selection.objective import Floats, Ints
from agentrl.selection.rules import RULES
from agentrl.selection.within import WITHIN

OPTIMAL = "max_variance"


@dataclass(frozen=True, slots=True)
class Question:
    """What the caller asked for."""

    rule: str
    within: str
    m: int
    """Most rows to keep of each group; rule all knows none."""
    token_budget: int | None = None
    """Most tokens to keep of all groups together; None for no limit."""
    floor: int = 0
    """Fewest rows of a group with contrast."""
    floor_tokens: int = 0
    """Tokens that a group with contrast may spend before groups compete."""
    cap_tokens: int | None = None
    """Most tokens of one group; None for no limit."""
    padded: bool = False
    """Whether each of a group's kept rows costs as much as the longest."""
    unbiased: bool = False
    """Whether every row has a chance, and weights undo it."""
    cap: int | None = None
    """Most rows to keep of each group, whatever the rule; None for no limit but m."""

    def most(self, size: int) -> int:
        """Rows that may be kept of a group of so many; more than it has where nothing limits."""
        rows = size if self.rule == "all" else self.m
        return rows if self.cap is None else min(rows, self.cap)

    @property
    def limited(self) -> bool:
        """Whether tokens count at all."""
        return self.token_budget is not None or self.cap_tokens is not None

    def cost(self, costs: Ints) -> int:
        """What rows of one group cost together."""
        if self.padded:
            return int(costs.max(initial=0)) * costs.size
        return int(costs.sum())

    def fits(self, costs: Sequence[int]) -> bool:
        """Whether groups of such costs are allowed."""
        within = self.token_budget is None or sum(costs) <= self.token_budget
        return within and (self.cap_tokens is None or max(costs, default=0) <= self.cap_tokens)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What is kept."""

    kept: tuple[Ints, ...]
    """Positions kept in each pool; none where the pool is flat."""
    method: str
    """How it was found."""
    upper_bound: float | None
    """No choice that was allowed has a larger Q; None where that is the Q of this one."""
    price: float = 0.0
    """Squared reward that a token more would bring; 0 where the budget does not bind."""
    weights: tuple[Floats, ...] = ()
    """One for each kept position; all 1 where there are none."""
    notes: Mapping[int, str] = field(default_factory=dict)
    """Pool to what was asked for it and could not be done, or why it got nothing."""


def asked(
    m: int,
    token_budget: int | None,
    rule: str,
    within: str,
    floor: int,
    cap: int | None,
    floor_tokens: int,
    cap_tokens: int | None,
    padded: bool,
    unbiased: bool,
) -> Question:
    """The question that arguments of `select` ask."""
    question = Question(
        rule=rule,
        within=within,
        m=whole(m, "m", 1),
        token_budget=None if token_budget is None else whole(token_budget, "token_budget", 1),
        floor=whole(floor, "floor", 0),
        floor_tokens=whole(floor_tokens, "floor_tokens", 0),
        cap_tokens=None if cap_tokens is None else whole(cap_tokens, "cap_tokens", 1),
        padded=padded,
        unbiased=unbiased,
        cap=None if cap is None else whole(cap, "cap", 1),
    )
    check(question)
    return question


def check(question: Question) -> None:
    """Refuse names that are not known and what cannot be done together."""
    _known(question.rule, "rule", RULES)
    _known(question.within, "within", WITHIN)
    most, tokens = question.most(question.m), question.cap_tokens
    if question.floor > most:
        raise UsageError(
            f"floor: {question.floor} rows are more than the {most} that may be kept. Lower it."
        )
    if tokens is not None and question.floor_tokens > tokens:
        raise UsageError(
            f"floor_tokens: {question.floor_tokens} are more than cap_tokens {tokens}. Lower it."
        )
    special = [name for name in ("floor", "floor_tokens", "unbiased") if getattr(question, name)]
    special += ["within"] * (question.within == "ht")
    if special and question.rule != OPTIMAL:
        raise UsageError(f"{special[0]}: rule {question.rule} has none. Use rule {OPTIMAL}.")
    if question.padded and (question.unbiased or question.within == "ht"):
        raise UsageError("padded: rows drawn by chance have no longest one. Leave one of them out.")
    if question.unbiased and WITHIN[question.within].unbiased is None:
        raise UsageError(f"unbiased: within {question.within} gives some rows no chance. Use auto.")
    if question.unbiased and most < 2:
        raise UsageError(
            "unbiased: m is 1. Rows on both sides of the mean are needed. Give m of 2 or more."
        )


def _known(name: Any, where: str, table: Mapping[str, object]) -> None:
    """Refuse a name that the table does not have."""
    if isinstance(name, str) and name in table:
        return
    hint = suggestion(str(name), table, f"Known: {', '.join(table)}.")
    raise UsageError(f"{where}: {reprlib.repr(name)} is not one. {hint}")


def whole(value: Any, where: str, least: int) -> int:
    """A whole number that is not too small."""
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1
    if count < least:
        raise UsageError(
            f"{where}: {reprlib.repr(value)} is not a whole number of at least {least}. Give one."
        )
    return count
