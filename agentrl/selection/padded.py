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


def best(pool: Pool, quota: Quota, budget: int, scale: float) -> Found:
    """The longest and the number of rows of largest Q, and of those tried the cheapest."""
    tops = np.unique(pool.costs[pool.costs <= budget])
    found: list[tuple[float, int, int, int]] = []
    for top in tops.tolist():
        values = _values(pool, top, scale)
        rows = min(quota.most, values.size, budget // top if top else values.size)
        if rows >= max(quota.least, 2):
            found.append((cuts(values, rows)[1], top * rows, top, rows))
    high = max((worth for worth, *_ in found), default=0.0)
    if high <= 0:
        return Found(np.zeros(2, dtype=np.int64), 0.0, 0.0, 0.0, "nothing fits")
    ties = [one for one in found if one[0] >= high * (1 - TIE)]
    worth, _, top, rows = min(ties, key=lambda one: one[1])
    values = _values(pool, top, scale)
    more = cuts(values, rows + 1)[1] if rows < min(quota.most, values.size) else worth
    price = max(0.0, more - worth) / max(top, 1)
    return Found(np.array([top, rows]), worth, worth, price, "padded: exact")


def trades(pool: Pool, quota: Quota, budget: int, scale: float) -> Trades:
    """Every trade within the budget, and none at all where nothing must be kept."""
    rows: list[tuple[int, float, int, int]] = [(0, 0.0, 0, 0)]
    rewards = (pool.rewards - pool.rewards[(len(pool) - 1) // 2]) / scale
    for top in np.unique(pool.costs[pool.costs <= budget]).tolist():
        order = np.flatnonzero(pool.costs <= top).tolist()
        most = min(quota.most, budget // top if top else quota.most)
        for size, worth in _grown(rewards, list(islice(nested(rewards, order), most))):
            rows.append((size * top, worth, top, size))
    cost, worths, tops, sizes = (np.array(column) for column in zip(*rows, strict=True))
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


def _values(pool: Pool, top: int, scale: float) -> Floats:
    """Rewards of the rows that are no longer, less a middle one's."""
    rewards = pool.rewards[pool.costs <= top]
    values: Floats = (rewards - rewards[(rewards.size - 1) // 2]) / scale
    return values


def _grown(rewards: Floats, places: list[int]) -> list[tuple[int, float]]:
    """Rows and Q after each row that is added, from the second on."""
    mean, worth, steps = 0.0, 0.0, []
    for size, value in enumerate(rewards[places].tolist()):
        away = value - mean
        worth += size / (size + 1) * away * away
        mean += away / (size + 1)
        steps.append((size + 1, worth))
    return steps[1:]
