"""Sampling: rows of a level drawn with known chances, so that weights can undo the choice.

In    a pool, a ladder that was built for drawing, and how many rows of each level
Out   positions, and the chance that each had; the same at every call
Not   how many rows of each level: solvers decide that without seeing what is drawn

A level's rows lie side by side on a line, each as long as its chance; one random number
shifts a comb of teeth one apart, and the rows that a tooth hits are taken. So exactly as many
are taken as the chances sum to, each with its chance. What they can cost at most is known
before drawing, and that is what the solvers count: no draw breaks the budget.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agentrl.selection.ladder import Ladder, Steps
from agentrl.selection.objective import EPSILONS, Floats, Ints
from agentrl.selection.pool import Pool

Size = Callable[[Pool], Floats]
"""What the chance of a row is proportional to, one per usable row."""

GRAIN = 2.0**40
"""Chances are whole multiples of its inverse: sums of them are exact."""


def away(pool: Pool) -> Floats:
    """Reward less the group's mean; less one of them first, lest large ones round."""
    values = pool.rewards - pool.rewards[(len(pool) - 1) // 2]
    result: Floats = values - values.mean()
    return result


def short(pool: Pool) -> Floats:
    """Shorter rows more often: the least variance a token where rows are alike otherwise."""
    size: Floats = 1 / np.sqrt(np.maximum(pool.costs, 1))
    return size


def far(pool: Pool) -> Floats:
    """Rows far from the group's mean more often."""
    return np.abs(away(pool))


def far_short(pool: Pool) -> Floats:
    """Both."""
    return far(pool) * short(pool)


def ends(sizes: Floats, count: int) -> Floats:
    """Where each row's part of the line ends: chances sum to the count, none is over 1."""
    certain = np.zeros(sizes.size, dtype=np.bool_)
    while True:
        rest = count - np.count_nonzero(certain)
        chance = np.where(certain, 1.0, sizes * (rest / max(sizes[~certain].sum(), 1e-300)))
        over = (chance >= 1) & ~certain
        if not over.any():
            break
        certain |= over
    line = np.round(np.cumsum(chance) * GRAIN) / GRAIN
    line[-1] = count
    return line


def hit(line: Floats, shift: float) -> Ints:
    """The rows that a comb hits whose first tooth lies at the shift, in [0, 1)."""
    teeth = np.arange(int(line[-1])) + shift
    return np.searchsorted(line, teeth, side="right")


def dearest(line: Floats, costs: Ints) -> int:
    """The most that a draw can cost: as the comb moves, teeth pass from row to row."""
    passes = np.argsort(line[:-1] % 1.0, kind="stable")
    passes = passes[line[passes] % 1.0 > 0]
    start = int(costs[hit(line, 0.0)].sum())
    where = line[passes] % 1.0
    running = start + np.cumsum(costs[passes + 1] - costs[passes])
    settled = np.append(np.diff(where) > 0, True)[: running.size]
    return max(start, int(running[settled].max(initial=start)))


def drawing(sizes: Size, most: int, limit: int) -> Steps:
    """Steps of a ladder for drawing: each row more costs what the dearest draw rises by.

    At most so many rows of a level are drawn, for so many tokens.
    """

    def steps(pool: Pool, places: Ints, starts: Ints) -> tuple[Ints, Ints]:
        size = sizes(pool)
        columns = [
            _rises(size[some], pool.costs[some], most, limit) for some in _split(places, starts)
        ]
        return places, np.concatenate([np.zeros(0, np.int64), *columns])

    return steps


def strata(pool: Pool, limit: int, scale: float, steps: Steps) -> Ladder:
    """Two levels, the rows below the group's mean and those above it, cheapest first.

    A row at the mean has no part in the gradient. Where both levels are drawn from, every
    other row has a chance.
    """
    side = away(pool)
    near = EPSILONS * float(np.abs(side).max(initial=0.0))
    order = np.argsort(pool.costs, kind="stable")
    order = order[(np.abs(side[order]) > near) & (pool.costs[order] <= limit)]
    parts = [order[side[order] < 0], order[side[order] > 0]]
    values = [
        float(np.average(side[some], weights=np.abs(side[some]))) for some in parts if some.size
    ]
    starts = np.cumsum([0, *(some.size for some in parts if some.size)])
    places, costs = steps(pool, np.concatenate(parts), starts)
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(costs)))
    return Ladder(np.array(values) / scale, starts, places, costs, sums)


def draw(pool: Pool, offer: Ladder, counts: Ints, sizes: Size) -> tuple[Ints, Floats, Floats]:
    """Positions, their chances, and the share of their level that is drawn."""
    size, shifts = sizes(pool), pool.generator().random(counts.size)
    drawn = [(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))]
    for level, places in enumerate(_split(offer.places, offer.starts)):
        count = int(counts[level])
        if count:
            line = ends(size[places], count)
            which = hit(line, float(shifts[level]))
            chances = np.diff(line, prepend=0.0)[which]
            drawn.append((places[which], chances, np.full(count, count / places.size)))
    positions, chances, shares = (np.concatenate(column) for column in zip(*drawn, strict=True))
    return positions, chances, shares


def at_most(pool: Pool, offer: Ladder, counts: Ints, sizes: Size) -> int:
    """What so many rows of each level cost, whichever are drawn."""
    size = sizes(pool)
    levels = zip(_split(offer.places, offer.starts), counts.tolist(), strict=True)
    return sum(_dearest(size[some], pool.costs[some], count) for some, count in levels if count)


def _dearest(sizes: Floats, costs: Ints, count: int) -> int:
    """What so many rows of a level cost at most."""
    return int(costs.sum()) if count == costs.size else dearest(ends(sizes, count), costs)


def _rises(sizes: Floats, costs: Ints, most: int, limit: int) -> Ints:
    """What each row more adds to the dearest draw; past the limits, the most that one can."""
    if costs[0] == costs[-1]:
        return costs
    table = [0]
    while len(table) <= min(most, costs.size) and table[-1] <= limit:
        table.append(max(table[-1], _dearest(sizes, costs, len(table))))
    rises: Ints = np.full(costs.size, costs.max(), dtype=np.int64)
    rises[: len(table) - 1] = np.diff(table)
    return rises


def _split(places: Ints, starts: Ints) -> list[Ints]:
    """The places of each level."""
    return np.split(places, starts[1:-1]) if starts.size > 1 else []
