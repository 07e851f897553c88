"""All subsets of small groups: what a selection is measured against."""

import numpy as np

from agentrl.selection.objective import is_flat


def subsets(size):
    """One subset a row."""
    return (np.arange(2**size)[:, None] >> np.arange(size) & 1).astype(float)


def priced(rewards, costs, *, padded=False):
    """Rows, cost and Q of every subset."""
    table = subsets(len(rewards))
    values = np.array(rewards, dtype=float) - (np.sort(rewards)[len(rewards) // 2])
    size = table.sum(axis=1)
    mean = table @ values / np.maximum(size, 1)
    worth = (table * (values - mean[:, None]) ** 2).sum(axis=1)
    cost = (table * costs).max(axis=1) * size if padded else table @ np.array(costs, dtype=float)
    return size, cost, np.where(worth > 1e-24 * np.abs(values).max() ** 2, worth, 0.0)


def frontier(rewards, costs, *, m, limit, least=0, padded=False):
    """Costs and Q of the subsets that are allowed and that no cheaper one beats."""
    size, cost, worth = priced(rewards, costs, padded=padded)
    keep = (size <= m) & (cost <= limit)
    if is_flat(rewards):
        keep &= size == 0
    elif least:
        keep &= (size >= min(max(least, 2), len(rewards))) & (worth > 0)
    cost, worth = cost[keep], worth[keep]
    order = np.lexsort((-worth, cost))
    cost, worth = cost[order], worth[order]
    better = worth > np.concatenate(([-1.0], np.maximum.accumulate(worth)[:-1]))
    return cost[better], worth[better]


def best(groups, *, m, budget, cap=None, least=0, padded=False):
    """The largest Q of (rewards, costs) pairs under one budget; None if nothing is allowed."""
    limit = budget if cap is None else min(cap, budget)
    costs, worths = np.zeros(1), np.zeros(1)
    for rewards, tokens in groups:
        cost, worth = frontier(rewards, tokens, m=m, limit=limit, least=least, padded=padded)
        costs = (costs[:, None] + cost).ravel()
        worths = (worths[:, None] + worth).ravel()
        costs, worths = costs[costs <= budget], worths[costs <= budget]
    return float(worths.max()) if worths.size else None
