"""Rules: which m of a group's usable rows are kept.

In    a pool with spread, m, and which rows to prefer among equals
Out   positions in the pool, at most m of them
Not   flat groups, which no rule sees, and not what fits a token budget
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np

from agentrl.selection.objective import Ints
from agentrl.selection.pool import Pool
from agentrl.selection.ranking import nested

Order = Callable[[Pool], Ints]
Rule = Callable[[Pool, int, Ints], list[int]]


def drawn(pool: Pool) -> Ints:
    """Equal rewards are taken at random, which keeps the choice free of other aims."""
    return pool.draw()


def cheapest(pool: Pool) -> Ints:
    """By lower cost, then fewer tokens, then lower reward; only then by lower row."""
    order: Ints = np.lexsort((pool.tokens, pool.costs))
    return order


def max_variance(pool: Pool, m: int, order: Ints) -> list[int]:
    """The m rewards that lie farthest apart: the largest Q."""
    return list(islice(nested(pool.rewards, order), m))


def everything(pool: Pool, m: int, order: Ints) -> list[int]:
    """Every row, or the first m of the order where a cap or a budget says so: plain GRPO."""
    every: list[int] = order[:m].tolist()
    return every


def random(pool: Pool, m: int, order: Ints) -> list[int]:
    """Any m."""
    some: list[int] = pool.draw()[:m].tolist()
    return some


def max_reward(pool: Pool, m: int, order: Ints) -> list[int]:
    """The m highest rewards."""
    ranked: list[int] = order[np.argsort(-pool.rewards[order], kind="stable")].tolist()
    return ranked[:m]


def first(pool: Pool, m: int, order: Ints) -> list[int]:
    """The m that were given first."""
    places: list[int] = np.argsort(pool.rows).tolist()
    return places[:m]


def percentile(pool: Pool, m: int, order: Ints) -> list[int]:
    """Evenly spaced ranks of the sorted rewards, both ends included; the middle if m is 1."""
    ranked: list[int] = order[np.argsort(pool.rewards[order], kind="stable")].tolist()
    last, gaps = len(ranked) - 1, m - 1
    if m > last:
        return ranked
    if not gaps:
        return [ranked[last // 2]]
    return [ranked[(2 * i * last + gaps) // (2 * gaps)] for i in range(m)]


RULES: dict[str, Rule] = {
    "max_variance": max_variance,
    "all": everything,
    "random": random,
    "max_reward": max_reward,
    "first": first,
    "percentile": percentile,
}
