"""Problem: groups with contrast, what they offer where tokens bind, and what limits them.

In    pools and a question with a budget or a cap
Out   ladders in one scale; a choice on them as a record
Not   a solver: budgeted.py calls those
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from agentrl.selection import padded
from agentrl.selection.found import Quota
from agentrl.selection.ladder import Ladder, Steps, by_cost, laid, partnered, scale_of, scaled
from agentrl.selection.objective import Ints
from agentrl.selection.pool import Pool
from agentrl.selection.question import Question
from agentrl.selection.sampling import drawing, strata
from agentrl.selection.within import WITHIN


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """The groups with contrast, and what limits them."""

    pools: Sequence[Pool]
    question: Question
    steps: Steps
    """The order and cost of equal rewards."""
    budget: int
    cap: int
    scale: float
    offers: Sequence[Ladder]

    @property
    def drawn(self) -> bool:
        """Whether rows of equal reward are drawn, not the cheapest."""
        return self.steps is not by_cost

    def quota(self, pool: Pool, least: int) -> Quota:
        """A single row has no contrast: a floor is two rows at least."""
        return Quota(self.question.most(len(pool)), min(max(least, 2), len(pool)) if least else 0)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What was found, in scaled rewards."""

    choices: Sequence[Ints]
    worth: float
    bound: float
    price: float
    method: str
    notes: dict[int, str]
    """Place among the problem's pools to the floor that was dropped there."""


def posed(pools: Sequence[Pool], question: Question) -> Problem:
    """The problem that a question asks of groups with contrast."""
    budget = question.token_budget
    if budget is None:
        budget = sum(len(pool) * int(pool.costs.max()) for pool in pools)
    cap = budget if question.cap_tokens is None else min(question.cap_tokens, budget)
    steps = _steps(pools, question, cap)
    if question.unbiased:
        # Chances follow the mean of all rows, those that cannot be afforded included.
        scale = scale_of(pools)
        offers = [strata(pool, cap, scale, steps) for pool in pools]
        return Problem(pools, question, steps, budget, cap, scale, offers)
    return _offered(pools, question, steps, budget, cap)


def cheapest(problem: Problem, question: Question) -> Problem:
    """Another question of the same groups, where the cheapest of equal rewards come first."""
    return _offered(problem.pools, question, by_cost, problem.budget, problem.cap)


def _steps(pools: Sequence[Pool], question: Question, cap: int) -> Steps:
    """How rows of equal reward are taken."""
    way = WITHIN[question.within]
    size = way.unbiased if question.unbiased else way.size
    if question.padded or (size is not None and not question.limited):
        return by_cost
    if size is None:
        return way.steps
    return drawing(size, max(question.most(len(pool)) for pool in pools), cap)


def _offered(
    pools: Sequence[Pool], question: Question, steps: Steps, budget: int, cap: int
) -> Problem:
    """Ladders of the rows that can have a part, and a scale that suits those."""
    affordable: Callable[[Pool, int], Ints] = _within
    if steps is by_cost:
        affordable = padded.affordable if question.padded else partnered
    places = [affordable(pool, cap) for pool in pools]
    pairs = list(zip(pools, places, strict=True))
    scale = scaled(
        [float(pool.rewards[some[-1]] - pool.rewards[some[0]]) for pool, some in pairs if some.size]
    )
    offers = [laid(pool, some, scale, steps) for pool, some in pairs]
    return Problem(pools, question, steps, budget, cap, scale, offers)


def _within(pool: Pool, cap: int) -> Ints:
    """Positions of the rows that fit."""
    return np.flatnonzero(pool.costs <= cap)
