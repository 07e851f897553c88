"""Two rewards under a budget: the best numbers of each, exactly.

In    a ladder of two levels, the least and most rows, and a budget
Out   counts, and what another token would bring
Not   more levels (levels.py)

For every number of the upper reward as many of the lower as fit: Q grows with each row, so
fewer are never better. Running totals find that number for all of them at once.
"""

from __future__ import annotations

import numpy as np

from agentrl.selection.found import Found, Quota
from agentrl.selection.ladder import Ladder
from agentrl.selection.rounding import rate


def best(offer: Ladder, quota: Quota, budget: int) -> Found:
    """The counts of largest Q; of those the cheapest."""
    low, high = offer.table(0), offer.table(1)
    spent = high[: int(high[: quota.most + 1].searchsorted(budget, side="right"))]
    upper = np.arange(spent.size)
    lower = low.searchsorted(budget - spent, side="right") - 1
    lower = np.minimum(lower, quota.most - upper)
    size = upper + lower
    worth = upper * lower / np.maximum(size, 1)
    worth[size < quota.least] = 0.0
    best_worth = worth.max(initial=0.0)
    if not best_worth:
        return Found.nothing(offer)
    top = np.flatnonzero(worth == best_worth)
    place = int(top[np.argmin(spent[top] + low[lower[top]])])
    counts = np.array([lower[place], upper[place]])
    found = float(worth[place]) * float(offer.values[1] - offer.values[0]) ** 2
    return Found(counts, found, found, rate(offer, counts, quota), "two rewards: exact")
