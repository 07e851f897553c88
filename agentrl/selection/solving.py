"""Choice: the kept rows of every group, with a bound on what was possible.

In    pools and a question
Out   positions for each pool, the method, the bound on Q and the price of a token
Not   competition where there is none: what is best without a budget is kept where it fits
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from agentrl.selection import realised
from agentrl.selection.budgeted import budgeted
from agentrl.selection.ladder import by_cost, laid
from agentrl.selection.objective import Floats, Ints, q
from agentrl.selection.pool import Pool
from agentrl.selection.question import OPTIMAL, Choice, Question
from agentrl.selection.ranking import cuts
from agentrl.selection.rules import RULES, Order, max_variance
from agentrl.selection.sampling import at_most
from agentrl.selection.walking import walked
from agentrl.selection.within import WITHIN

Kept = Sequence[Ints]


def solve(pools: Sequence[Pool], question: Question) -> Choice:
    """The rule's choice in each pool."""
    way = WITHIN[question.within]
    if question.rule != OPTIMAL:
        return _by_rule(pools, question, way.orders[0])
    if question.unbiased or _too_dear(pools, question):
        return budgeted(pools, question)
    unbudgeted = _drawn if way.size is not None else _taken
    for order in way.orders:
        choice = unbudgeted(pools, question, _best(pools, question, order))
        if choice is not None:
            return choice
    return budgeted(pools, question)


def _best(pools: Sequence[Pool], question: Question, order: Order) -> Kept:
    """The largest Q without a budget."""
    return [
        _positions([] if pool.flat else max_variance(pool, _most(pool, question), order(pool)))
        for pool in pools
    ]


def _taken(pools: Sequence[Pool], question: Question, kept: Kept) -> Choice | None:
    """Those rows, where they fit."""
    if question.limited and not question.fits(_costs(pools, question, kept)):
        return None
    return Choice(tuple(kept), _method(question), None)


def _drawn(pools: Sequence[Pool], question: Question, kept: Kept) -> Choice | None:
    """As many rows of each reward, drawn by chance, where the dearest draw fits."""
    way = WITHIN[question.within]
    assert way.size is not None
    offers = [laid(pool, np.arange(len(pool)), 1.0, by_cost) for pool in pools]
    counts = [offer.counted(some) for offer, some in zip(offers, kept, strict=True)]
    triples = list(zip(pools, offers, counts, strict=True))
    if question.limited and not question.fits([at_most(*one, way.size) for one in triples]):
        return None
    rows = [realised.drawn(*one, way.size) for one in triples]
    found = _total_q(pools, kept)
    drawn, weights = tuple(row for row, _ in rows), tuple(weights for _, weights in rows)
    return Choice(drawn, _method(question), found, weights=weights)


def _too_dear(pools: Sequence[Pool], question: Question) -> bool:
    """Whether every best choice without a budget surely breaks it."""
    if question.padded or question.token_budget is None:
        return False
    pairs = [(pool, _most(pool, question)) for pool in pools if not pool.flat]
    least = sum(int(np.partition(pool.costs, size - 1)[:size].sum()) for pool, size in pairs)
    if least > question.token_budget:
        return True
    return sum(_cheapest(pool, size) for pool, size in pairs) > question.token_budget


def _cheapest(pool: Pool, size: int) -> int:
    """No best choice of so many rows costs less."""
    low, _ = cuts(_centred(pool), size)
    down = np.lexsort((pool.costs, -pool.rewards))[:size]
    lowest = np.concatenate(([0], np.cumsum(pool.costs[:size])))
    highest = np.concatenate(([0], np.cumsum(pool.costs[down])))
    return int((lowest[low] + highest[size - low]).min())


def _by_rule(pools: Sequence[Pool], question: Question, order: Order) -> Choice:
    """Another rule's choice, and the bound of the best one."""
    kept: Kept = [
        _positions(
            [] if pool.flat else RULES[question.rule](pool, _most(pool, question), order(pool))
        )
        for pool in pools
    ]
    method = question.rule
    if not question.fits(_costs(pools, question, kept)):
        kept = [_positions(some) for some in walked(pools, question, order)]
        method = f"{question.rule}, while it fits"
    found = _total_q(pools, kept)
    bound = sum(cuts(_centred(pool), _most(pool, question))[1] for pool in pools if not pool.flat)
    if question.limited:
        rows = max(map(len, pools), default=1) if question.rule == "all" else question.m
        best = replace(question, rule=OPTIMAL, within="cheapest", m=rows)
        optimum = solve(pools, best)
        limit = optimum.upper_bound
        bound = min(bound, _total_q(pools, optimum.kept) if limit is None else limit)
    return Choice(tuple(kept), method, max(found, bound))


def _method(question: Question) -> str:
    return "unbudgeted optimum fits" if question.limited else "two-ended growth"


def _costs(pools: Sequence[Pool], question: Question, kept: Kept) -> list[int]:
    """What the kept rows of each pool cost."""
    return [question.cost(pool.costs[some]) for pool, some in zip(pools, kept, strict=True)]


def _most(pool: Pool, question: Question) -> int:
    """Rows that may be kept of a pool."""
    return min(question.most(len(pool)), len(pool))


def _positions(kept: list[int]) -> Ints:
    return np.array(kept, dtype=np.int64)


def _centred(pool: Pool) -> Floats:
    """Rewards less a middle one's."""
    values: Floats = pool.rewards - pool.rewards[(len(pool) - 1) // 2]
    return values


def _total_q(pools: Sequence[Pool], kept: Kept) -> float:
    return sum(q(pool.rewards[some]) for pool, some in zip(pools, kept, strict=True))
