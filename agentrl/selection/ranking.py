"""Nested ranking: the order in which rows join a best choice.

In    rewards of one group, and which rows to prefer among equals
Out   positions; the first m of them have the largest Q of any m, for every m at once;
      for one m alone, how many of the lowest that is
Not   token budgets: a prefix is best by number of rows only

Take the end of the sorted rewards that lies farther from the mean of those taken so
far. A best choice always holds the lowest few and the highest few. Swapping one of the
ends for the next on the other side pays only while that one lies farther out, which
the farther-end step rules out for this size and keeps ruled out for the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from agentrl.selection.objective import TIE, Floats, Ints, Rewards


def nested(rewards: Rewards, order: Sequence[int] | Ints) -> Iterator[int]:
    """All positions of `order`, best choices first.

    Equal rewards are taken in `order`; so are two ends equally far from the mean,
    whose Q is the same.
    """
    positions, places, values, upcoming, ends = _classes(rewards, order)
    low, high, count, total = 0, len(values) - 1, 0, 0.0
    while low <= high:
        above = count * values[high] - total
        below = total - count * values[low]
        first = places[upcoming[high]] < places[upcoming[low]]
        upper = above > below or (above == below and first)
        end = high if upper else low
        yield positions[upcoming[end]]
        upcoming[end] += 1
        count, total = count + 1, total + values[end]
        if upcoming[end] == ends[end]:
            low, high = (low, high - 1) if upper else (low + 1, high)


def cuts(ranked: Floats, m: int) -> tuple[Ints, float]:
    """How many of the lowest may be in a best choice of m, and the Q of that choice.

    The others are the highest. Rewards come ascending, less a middle one.
    """
    lows, highs = _running(ranked[:m]), _running(ranked[::-1][:m])[:, ::-1]
    total, squares = lows + highs
    worth = squares - np.square(total) / m
    best = float(worth.max())
    return np.flatnonzero(worth >= best * (1 - TIE)), best


def _running(values: Floats) -> Floats:
    """Sums and sums of squares of the first 0, 1, 2, ... values."""
    rows = np.zeros((2, values.size + 1))
    values.cumsum(out=rows[0, 1:])
    np.square(values).cumsum(out=rows[1, 1:])
    return rows


def _classes(
    rewards: Rewards, order: Sequence[int] | Ints
) -> tuple[list[int], list[int], list[float], list[int], list[int]]:
    """Rows by ascending reward, then order, and where in the order each stands.

    Then of the different rewards: the reward less a middle row's, the first row and the end.
    """
    listed = np.asarray(order, dtype=np.int64)
    own = np.asarray(rewards, dtype=np.float64)[listed]
    places = np.argsort(own, kind="stable")
    ranked = own[places]
    fresh = np.ones(ranked.size, dtype=np.bool_)
    fresh[1:] = ranked[1:] != ranked[:-1]
    starts = np.flatnonzero(fresh)
    middle = ranked[(ranked.size - 1) // 2] if ranked.size else 0.0
    return (
        listed[places].tolist(),
        places.tolist(),
        (ranked[starts] - middle).tolist(),
        starts.tolist(),
        [*starts[1:].tolist(), ranked.size],
    )
