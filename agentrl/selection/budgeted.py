"""Budgeted: the best choice where tokens bind, one group alone or many together.

In    pools and a question with a budget or a cap
Out   a choice; where rows are drawn, its bound is that of the cheapest rows
Not   whether the budget binds at all (solving.py looks first)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from agentrl.selection import alone, padded, realised
from agentrl.selection.batch import share
from agentrl.selection.bidder import Bidder, bidder, owing
from agentrl.selection.found import Found, Quota
from agentrl.selection.noted import alike, no_contrast, noted, unmet
from agentrl.selection.pool import Pool
from agentrl.selection.problem import Outcome, Problem, cheapest, posed
from agentrl.selection.question import Choice, Question
from agentrl.selection.realised import Rows
from agentrl.selection.within import WITHIN

NONE: Rows = (np.zeros(0, np.int64), np.zeros(0))
"""What a flat group keeps."""


def budgeted(pools: Sequence[Pool], question: Question) -> Choice:
    """The largest Q within the budget."""
    return _among(pools, question, {})


def _among(pools: Sequence[Pool], question: Question, without: Mapping[int, str]) -> Choice:
    """The same where some pools are left out, for reasons given."""
    active = [place for place, pool in enumerate(pools) if not pool.flat and place not in without]
    if len(active) > 1:
        # Between groups content decides, not which came first.
        active.sort(key=lambda place: pools[place].key[::-1])
    if not active:
        nothing = (NONE[0],) * len(pools)
        return Choice(nothing, "nothing to choose from", 0.0, notes=dict(without))
    problem = posed([pools[place] for place in active], question)
    outcome = _solved(problem)
    fallback = not outcome.worth and not question.unbiased and problem.drawn
    if fallback:
        # Rows in the order of a draw may all be too dear where the cheapest are not.
        problem = cheapest(problem, question)
        outcome = _solved(problem)
    rows = _rows(problem, outcome)
    lost = [active[place] for place in _emptied(outcome, rows) if alike(problem, place)]
    if lost:
        return _among(pools, question, {**without, **dict.fromkeys(lost, no_contrast(problem))})
    notes = noted(problem, outcome, rows, fallback=fallback)
    placed = dict(zip(active, rows, strict=True))
    bound, method = _bound(problem, outcome)
    return Choice(
        kept=tuple(placed.get(place, NONE)[0] for place in range(len(pools))),
        method=method,
        upper_bound=bound,
        price=outcome.price * problem.scale**2,
        weights=tuple(placed.get(place, NONE)[1] for place in range(len(pools))),
        notes={**without, **{active[place]: note for place, note in notes.items()}},
    )


def _bound(problem: Problem, outcome: Outcome) -> tuple[float, str]:
    """The bound on Q, and what the method is called."""
    question = problem.question
    if not question.unbiased and not problem.drawn:
        return outcome.bound * problem.scale**2, outcome.method
    # Floors and chances only narrow the choice.
    free = cheapest(problem, replace(question, unbiased=False, floor=0, floor_tokens=0))
    method = outcome.method.replace(": exact", "").replace(": certified", "")
    return _solved(free).bound * free.scale**2, f"{method} among drawn rows"


def _emptied(outcome: Outcome, rows: Sequence[Rows]) -> list[int]:
    """Places where something was found, all of it alike."""
    return [
        place
        for place, (kept, _) in enumerate(rows)
        if not kept.size and outcome.choices[place].any()
    ]


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
            notes[place] = unmet(problem)
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
            notes[place] = unmet(problem)
        else:
            left, merged[place] = left - cost, strict[place]
    return merged, notes


def _rows(problem: Problem, outcome: Outcome) -> list[Rows]:
    """Which rows the choices stand for."""
    way, offers = WITHIN[problem.question.within], problem.offers
    if problem.question.unbiased and way.unbiased is not None:
        return realised.unbiased(problem.pools, offers, outcome.choices, way.unbiased)
    triples = zip(problem.pools, offers, outcome.choices, strict=True)
    if way.size is not None and problem.drawn:
        found = [realised.drawn(*one, way.size) for one in triples]
    else:
        found = [realised.taken(*one, problem.question) for one in triples]
    return [realised.contrast(*one) for one in zip(problem.pools, found, strict=True)]
