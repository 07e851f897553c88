"""Ladder: a group's choices as how many rows of each reward, and what they cost.

In    a pool, which of its rows can be afforded, and the order in which equal rewards are taken
Out   levels (different rewards, ascending) and steps (the rows of a level, next one first)
Not   a choice: solvers return one count a level, and `taken` says which rows those are

Rows of equal reward change Q alike, so a choice is one count a level. Taken cheapest first
a count costs least, and no other choice is as good. Taken at random or by worst case, the
steps say what the rows will cost in that order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from agentrl.selection.objective import Floats, Ints, Mask
from agentrl.selection.pool import Pool

Steps = Callable[[Pool, Ints, Ints], tuple[Ints, Ints]]
"""Pool, positions by level and where levels begin → positions in order, cost of each step."""


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """What one group offers."""

    values: Floats
    """Rewards of the levels, less a middle one's, over the scale."""
    starts: Ints
    """Where each level's steps begin; last, where they end."""
    places: Ints
    """The position in the pool of each step's row, level by level."""
    steps: Ints
    """What a level's next row costs, level by level."""
    sums: Ints
    """Running total of the steps, from 0."""

    @property
    def sizes(self) -> Ints:
        """Rows of each level."""
        sizes: Ints = self.starts[1:] - self.starts[:-1]
        return sizes

    @property
    def levels(self) -> Ints:
        """Level of each step."""
        return np.repeat(np.arange(self.values.size), self.sizes)

    def table(self, level: int) -> Ints:
        """What 0, 1, 2, ... rows of a level cost."""
        low, high = self.starts[level], self.starts[level + 1]
        table: Ints = self.sums[low : high + 1] - self.sums[low]
        return table

    def cost(self, counts: Ints) -> Ints:
        """What counts cost, one choice a row."""
        begin = self.starts[:-1]
        total: Ints = (self.sums[begin + counts] - self.sums[begin]).sum(axis=-1)
        return total

    def worth(self, counts: Ints) -> Floats:
        """Q of counts in scaled rewards, one choice a row."""
        size = np.maximum(counts.sum(axis=-1), 1)
        mean = counts @ self.values / size
        worth = (counts * np.square(self.values - mean[..., None])).sum(axis=-1)
        # The mean of equal rewards can round; their Q is nothing all the same.
        return np.where(np.count_nonzero(counts, axis=-1) > 1, worth, 0.0)

    def counted(self, positions: Ints) -> Ints:
        """Rows of each level among positions of the pool, which must all be on the ladder."""
        levels = np.zeros(int(self.places.max(initial=-1)) + 1, dtype=np.int64)
        levels[self.places] = self.levels
        return np.bincount(levels[positions], minlength=self.values.size)

    def taken(self, counts: Ints) -> Ints:
        """Positions in the pool of the rows that counts stand for."""
        ends = np.repeat(self.starts[:-1] + counts, self.sizes)
        return self.places[np.arange(ends.size) < ends]


def partnered(pool: Pool, limit: int) -> Ints:
    """Positions of the rows that fit together with a row of another reward.

    Other rows are in no choice with contrast, and rewards far out among them would only
    coarsen the numbers of the rest.
    """
    costs, rewards = pool.costs, pool.rewards
    if 2 * int(costs.max(initial=0)) <= limit:
        return np.arange(costs.size)
    edges = np.ones(costs.size + 1, dtype=np.bool_)
    edges[1:-1] = rewards[1:] != rewards[:-1]
    starts = edges.nonzero()[0]
    first = costs[starts[:-1]]
    # The cheapest row is everyone's partner but that of its own level.
    own = int(first.argmin())
    fits: Mask = costs <= limit - int(first[own])
    first[own] = limit + 1
    begin, end = int(starts[own]), int(starts[own + 1])
    fits[begin:end] = costs[begin:end] <= limit - int(first.min())
    return fits.nonzero()[0]


def ladder(pool: Pool, limit: int, scale: float, steps: Steps) -> Ladder:
    """The levels of a pool's rows that can have contrast within the limit."""
    return laid(pool, partnered(pool, limit), scale, steps)


def laid(pool: Pool, places: Ints, scale: float, steps: Steps) -> Ladder:
    """The levels of some rows, ascending positions."""
    rewards = pool.rewards[places]
    edges = np.ones(places.size + 1, dtype=np.bool_)
    edges[1:-1] = rewards[1:] != rewards[:-1]
    starts = np.flatnonzero(edges)
    values = rewards[starts[:-1]]
    middle = rewards[(places.size - 1) // 2] if places.size else 0.0
    places, costs = steps(pool, places, starts)
    sums = np.zeros(places.size + 1, dtype=np.int64)
    costs.cumsum(out=sums[1:])
    return Ladder((values - middle) / scale, starts, places, costs, sums)


def scale_of(pools: Sequence[Pool]) -> float:
    """A power of two near the widest range: numbers stay near 1 and nothing is rounded."""
    return scaled([float(pool.rewards[-1] - pool.rewards[0]) for pool in pools])


def scaled(widths: Sequence[float]) -> float:
    """The same of ranges."""
    width = max(widths, default=1.0)
    return 2.0 ** math.ceil(math.log2(width)) if width > 0 else 1.0


def by_cost(pool: Pool, places: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Cheapest first: the order that a pool has."""
    return places, pool.costs[places]


def by_draw(pool: Pool, places: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Equal rewards in a random order."""
    rank = np.empty(len(pool), dtype=np.int64)
    rank[pool.draw()] = np.arange(len(pool))
    levels = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    mixed = places[np.lexsort((rank[places], levels))]
    return mixed, pool.costs[mixed]
