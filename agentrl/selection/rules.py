"""Rules: which m of a group's usable rows are kept.

In    a pool with spread, m, and which rows to prefer among equals
Out   positions in the pool, at most m of them, or all for the rule `all`
Not   flat groups, which no rule sees, and not token budgets
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from agentrl.selection.pool import Pool
from agentrl.selection.ranking import nested

Order = Callable[[Pool], Sequence[int]]
Rule = Callable[[Pool, int, Sequence[int]], list[int]]


def drawn(pool: Pool) -> Sequence[int]:
    """Equal rewards are taken at random, which keeps the choice free of other aims."""
    return pool.draw


def cheapest(pool: Pool) -> Sequence[int]:
    """Equal rewards are taken by fewer tokens, then by lower row."""
    return sorted(range(len(pool.rows)), key=lambda position: pool.tokens[position])


def max_variance(pool: Pool, m: int, order: Sequence[int]) -> list[int]:
    """The m rewards that lie farthest apart: the largest Q."""
    return list(islice(nested(pool.rewards, order), m))


def everything(pool: Pool, m: int, order: Sequence[int]) -> list[int]:
    """Every row, whatever m: plain GRPO."""
    return list(order)


def random(pool: Pool, m: int, order: Sequence[int]) -> list[int]:
    """Any m."""
    return list(pool.draw[:m])


def max_reward(pool: Pool, m: int, order: Sequence[int]) -> list[int]:
    """The m highest rewards."""
    return sorted(order, key=lambda position: -pool.rewards[position])[:m]


def first(pool: Pool, m: int, order: Sequence[int]) -> list[int]:
    """The m that were given first."""
    return list(range(len(pool.rows)))[:m]


def percentile(pool: Pool, m: int, order: Sequence[int]) -> list[int]:
    """Evenly spaced ranks of the sorted rewards, both ends included; the middle if m is 1."""
    ranked = sorted(order, key=lambda position: pool.rewards[position])
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

WITHIN: dict[str, tuple[Order, ...]] = {
    "auto": (drawn, cheapest),
    "random": (drawn,),
    "cheapest": (cheapest,),
}
"""Orders among equal rewards; a later one is for where a token budget refuses those before."""
