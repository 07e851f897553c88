"""Budgeted: the best choice where tokens bind, one group alone or many together.

In    pools and a question with a budget or a cap
Out   a choice; where rows are drawn, its bound is that of the cheapest rows
Not   whether the budget binds at all (solving.py looks first)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from agentrl.selection import alone, padded, realised
from agentrl.selection.batch import share
from agentrl.selection.bidder import Bidder, bidder, owing
from agentrl.selection.found import Found, Quota
from agentrl.selection.ladder import Ladder, Steps, by_cost, ladder, scale_of
from agentrl.selection.objective import Ints
from agentrl.selection.pool import Pool
from agentrl.selection.question import Choice, Question
from agentrl.selection.realised import Rows
from agentrl.selection.rounding import pair
from agentrl.selection.sampling import drawing, strata
from agentrl.selection.within import WITHIN

NONE: Rows = (np.zeros(0, np.int64), np.zeros(0))
"""What a flat group keeps."""


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

    def quota(self, pool: Pool, least: int) -> Quota:
        """A single row has no contrast: a floor is two rows at least."""
        return Quota(self.question.m, min(max(least, 2), len(pool)) if least else 0)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What was found, in scaled rewards."""

    choices: Sequence[Ints]
    worth: float
    bound: float
    price: float
    method: str
    notes: dict[int, str]


def budgeted(pools: Sequence[Pool], question: Question) -> Choice:
    """The largest Q within the budget."""
    active = [place for place, pool in enumerate(pools) if not pool.flat]
    if len(active) > 1:
        # Between groups content decides, not which came first.
        active.sort(key=lambda place: pools[place].key[::-1])
    if not active:
        return Choice((NONE[0],) * len(pools), "nothing to choose from", 0.0)
    problem = _problem([pools[place] for place in active], question)
    outcome = _solved(problem)
    if not outcome.worth and not question.unbiased and problem.steps is not by_cost:
        # Rows in the order of a draw may all be too dear where the cheapest are not.
        problem = _by_cost(problem, question)
        outcome = _solved(problem)
    bound, method = outcome.bound, outcome.method
    if question.unbiased or problem.steps is not by_cost:
        # Floors and chances only narrow the choice.
        free = replace(question, unbiased=False, floor=0, floor_tokens=0)
        bound = _solved(_by_cost(problem, free)).bound
        method = method.replace(": exact", "").replace(": certified", "") + " among drawn rows"
    rows = _rows(problem, outcome)
    placed = dict(zip(active, rows, strict=True))
    return Choice(
        kept=tuple(placed.get(place, NONE)[0] for place in range(len(pools))),
        method=method,
        upper_bound=bound * problem.scale**2,
        price=outcome.price * problem.scale**2,
        weights=tuple(placed.get(place, NONE)[1] for place in range(len(pools))),
        notes=_notes(problem, outcome, rows, active),
    )


def _problem(pools: Sequence[Pool], question: Question) -> Problem:
    """What limits the groups with contrast."""
    budget = question.token_budget
    if budget is None:
        budget = sum(len(pool) * int(pool.costs.max()) for pool in pools)
    cap = budget if question.cap_tokens is None else min(question.cap_tokens, budget)
    way = WITHIN[question.within]
    steps = way.steps
    if question.unbiased and way.unbiased is not None:
        steps = drawing(way.unbiased) if question.limited else by_cost
    if question.padded:
        steps = by_cost
    build, scale = strata if question.unbiased else ladder, scale_of(pools)
    offers = [build(pool, cap, scale, steps) for pool in pools]
    return Problem(pools, question, steps, budget, cap, scale, offers)


def _by_cost(problem: Problem, question: Question) -> Problem:
    """Another question where the cheapest of equal rewards come first."""
    offers = [ladder(pool, problem.cap, problem.scale, by_cost) for pool in problem.pools]
    return replace(problem, question=question, steps=by_cost, offers=offers)


def _solved(problem: Problem) -> Outcome:
    """Each group alone where none competes, else all together."""
    if problem.question.token_budget is None or len(problem.pools) == 1:
        return _separate(problem)
    return _together(problem)


def _separate(problem: Problem) -> Outcome:
    """Each group under its own cap."""
    found: list[Found] = []
    notes: dict[int, str] = {}
    for place, pool in enumerate(problem.pools):
        least = problem.question.floor
        one = _alone(problem, place, problem.quota(pool, least))
        if least and not one.worth:
            one = _alone(problem, place, problem.quota(pool, 0))
            notes[place] = _unmet(problem, pool)
        found.append(one)
    methods = list(dict.fromkeys(one.method for one in found))
    return Outcome(
        choices=[one.counts for one in found],
        worth=sum(one.worth for one in found),
        bound=sum(one.bound for one in found),
        price=0.0 if problem.question.token_budget is None else found[0].price,
        method=", ".join(methods),
        notes=notes,
    )


def _alone(problem: Problem, place: int, quota: Quota) -> Found:
    """One group."""
    if problem.question.padded:
        return padded.best(problem.pools[place], quota, problem.cap, problem.scale)
    return alone.best(problem.offers[place], quota, problem.cap)


def _together(problem: Problem) -> Outcome:
    """All groups at one price."""
    bids = [_bid(problem, place, 0) for place in range(len(problem.pools))]
    bids, notes = _owed(problem, bids)
    shared = share(bids, problem.budget)
    return Outcome(shared.choices, shared.worth, shared.bound, shared.price, shared.method, notes)


def _bid(problem: Problem, place: int, least: int) -> Bidder:
    """One group that competes."""
    pool = problem.pools[place]
    quota = problem.quota(pool, least)
    if problem.question.padded:
        menu = padded.trades(pool, quota, problem.cap, problem.scale)
        return Bidder(menu, None, quota, problem.cap)
    return bidder(problem.offers[place], quota, problem.cap)


def _owed(problem: Problem, bids: list[Bidder]) -> tuple[list[Bidder], dict[int, str]]:
    """Floors, cheapest first, as long as they fit together; what did not fit is noted."""
    question, notes = problem.question, dict[int, str]()
    if not question.floor and not question.floor_tokens and not question.unbiased:
        return bids, notes
    least = 2 if question.unbiased and question.floor < 2 else question.floor
    strict = [
        owing(_bid(problem, place, least) if least else bid, question.floor_tokens)
        for place, bid in enumerate(bids)
    ]
    left, merged = problem.budget, list(bids)
    costs = [int(bid.menu.cost[0]) if len(bid.menu) else None for bid in strict]
    for place in sorted(range(len(bids)), key=lambda one: (costs[one] or 0, one)):
        cost = costs[place]
        if cost is None or cost > left:
            notes[place] = _unmet(problem, problem.pools[place])
        else:
            left, merged[place] = left - cost, strict[place]
    return merged, notes


def _unmet(problem: Problem, pool: Pool) -> str:
    """A floor that was dropped."""
    question = problem.question
    asked = [f"{question.floor} rows"] if question.floor else []
    asked += [f"{question.floor_tokens} tokens"] if question.floor_tokens else []
    return f"floor of {' and '.join(asked) or '2 rows'} dropped: it does not fit"


def _rows(problem: Problem, outcome: Outcome) -> list[Rows]:
    """Which rows the choices stand for."""
    way, offers = WITHIN[problem.question.within], problem.offers
    if problem.question.unbiased and way.unbiased is not None:
        return realised.unbiased(problem.pools, offers, outcome.choices, way.unbiased)
    triples = zip(problem.pools, offers, outcome.choices, strict=True)
    if way.size is not None and problem.steps is not by_cost:
        return [realised.drawn(pool, offer, some, way.size) for pool, offer, some in triples]
    return [realised.taken(pool, offer, some, problem.question) for pool, offer, some in triples]


def _notes(
    problem: Problem, outcome: Outcome, rows: Sequence[Rows], active: Sequence[int]
) -> dict[int, str]:
    """What could not be done, by place among all pools."""
    notes = {}
    for place, (kept, _) in enumerate(rows):
        why = [outcome.notes[place]] if place in outcome.notes else []
        if not kept.size:
            why.append(_why(problem, place))
        if why:
            notes[active[place]] = "; ".join(why)
    return notes


def _why(problem: Problem, place: int) -> str:
    """Why a group with contrast got nothing."""
    if problem.question.m < 2:
        return "m is 1: one row alone has no contrast"
    if pair(problem.offers[place], problem.cap) is None:
        return f"no two different rewards fit {problem.cap} tokens"
    return "its tokens bring more in other groups"
