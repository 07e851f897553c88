"""A padded micro-batch under a budget: rows times the longest, exactly.

In    a pool, a quota and a budget
Out   the longest row that is allowed and how many rows, as a choice; or every useful trade
Not   which of equal rewards: rows no longer than the longest all cost the same

For each longest row the best choice is the one without a budget among the rows that are no
longer, with as many rows as fit.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from agentrl.selection.found import Found, Quota
from agentrl.selection.objective import TIE, Floats, Ints
from agentrl.selection.pool import Pool
from agentrl.selection.ranking import cuts, nested
from agentrl.selection.trades import Trades, undominated

CELLS = 1_000_000
"""Rows, for each longest one, that are looked at side by side."""


def affordable(pool: Pool, budget: int) -> Ints:
    """Positions of the rows that fit twice: one alone has no contrast."""
    return np.flatnonzero(2 * pool.costs <= budget)


def best(pool: Pool, quota: Quota, budget: int, scale: float) -> Found:
    """The longest and the number of rows of largest Q, and of those tried the cheapest."""
    found: list[tuple[float, int, int, int]] = []
    for top in np.unique(pool.costs[affordable(pool, budget)]).tolist():
        values = _values(pool, top, scale)
        rows = min(quota.most, values.size, budget // top if top else values.size)
        if rows >= max(quota.least, 2):
            found.append((cuts(values, rows)[1], top * rows, top, rows))
    high = max((worth for worth, *_ in found), default=0.0)
    if high <= 0:
        return Found(np.zeros(2, dtype=np.int64), 0.0, 0.0, 0.0, "nothing fits")
    ties = [one for one in found if one[0] >= high * (1 - TIE)]
    worth, cost, top, rows = min(ties, key=lambda one: one[1])
    price = _rate(pool, quota.most, worth, cost, scale)
    return Found(np.array([top, rows]), worth, worth, price, "padded: exact")


def trades(pool: Pool, quota: Quota, budget: int, scale: float) -> Trades:
    """Every trade within the budget, and none at all where nothing must be kept."""
    tops = np.unique(pool.costs[affordable(pool, budget)])
    worth = _table(pool, tops, quota.most, scale)
    top, size = (one.ravel() for one in np.meshgrid(tops, _counts(worth), indexing="ij"))
    fits = np.flatnonzero((size > 1) & (worth.ravel() >= 0) & (top * size <= budget))
    nothing = np.zeros(1, dtype=np.int64)
    tops, sizes = (np.concatenate((nothing, one[fits])) for one in (top, size))
    cost, worths = tops * sizes, np.concatenate((np.zeros(1), worth.ravel()[fits]))
    keep = undominated(cost, worths)
    if quota.least:
        allowed = np.flatnonzero((sizes >= quota.least) & (worths > 0))
        keep = allowed[undominated(cost[allowed], worths[allowed])]
    choices = np.stack((tops, sizes), axis=1)
    return Trades(cost[keep], worths[keep], sizes[keep], choices[keep])


def taken(pool: Pool, choice: Ints, order: Ints) -> list[int]:
    """Positions of a choice, equal rewards in the order given."""
    top, rows = choice.tolist()
    return list(islice(nested(pool.rewards, order[pool.costs[order] <= top]), rows))


def _rate(pool: Pool, most: int, worth: float, cost: int, scale: float) -> float:
    """The most Q a token that a dearer choice would bring, whatever fits."""
    tops = np.unique(pool.costs)
    # Rows that no budget allows may lie farther out than the scale can hold.
    with np.errstate(over="ignore", invalid="ignore"):
        table = _table(pool, tops, most, scale)
        extra = tops[:, None] * _counts(table) - cost
        rates = (table - worth) / np.maximum(extra, 1)
    return float(rates[(table >= 0) & (extra > 0) & np.isfinite(rates)].max(initial=0.0))


def _counts(table: Floats) -> Ints:
    """Rows of each column of a table."""
    return np.arange(1, table.shape[1] + 1)


def _table(pool: Pool, tops: Ints, most: int, scale: float) -> Floats:
    """Q of the best 1, 2, ... rows no longer than each of some; -1 where there are fewer."""
    most = min(most, len(pool))
    parts = np.array_split(tops, max(1, tops.size * len(pool) // CELLS))
    return np.concatenate([_grown(pool, some, most, scale) for some in parts])


def _grown(pool: Pool, tops: Ints, most: int, scale: float) -> Floats:
    """The same, grown from both ends for all of them side by side."""
    allowed = pool.costs <= tops[:, None]
    sizes, rows = np.count_nonzero(allowed, axis=1), np.arange(tops.size)
    values = pool.rewards[np.argsort(~allowed, axis=1, kind="stable")]
    values = (values - values[rows, (sizes - 1) // 2][:, None]) / scale
    low, high = np.zeros(tops.size, dtype=np.int64), sizes - 1
    mean, worth = np.zeros(tops.size), np.zeros(tops.size)
    table = np.full((tops.size, most), -1.0)
    for size in range(most):
        below, above = values[rows, np.minimum(low, high)], values[rows, high]
        upper = above - mean > mean - below
        away = np.where(upper, above, below) - mean
        worth = worth + size / (size + 1) * np.square(away)
        mean = mean + away / (size + 1)
        table[:, size] = np.where(size < sizes, worth, -1.0)
        low, high = np.where(upper, low, low + 1), np.maximum(np.where(upper, high - 1, high), 0)
    return table


def _values(pool: Pool, top: int, scale: float) -> Floats:
    """Rewards of the rows that are no longer, less a middle one's."""
    rewards = pool.rewards[pool.costs <= top]
    values: Floats = (rewards - rewards[(rewards.size - 1) // 2]) / scale
    return values
