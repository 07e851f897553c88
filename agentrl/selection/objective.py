"""Q, spread and flatness: what a set of rewards is worth.

In    rewards of one group or of some of its rows, all finite
Out   numbers that do not depend on the order of the rows, nor on a constant added to all
Not   a choice of rows (rules.py), nor a check that rewards are usable (pool.py)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Rewards = Sequence[float] | Floats

EPSILONS = 16 * float(np.finfo(np.float64).eps)
"""Rewards that lie closer than this, relative to the largest, differ by rounding only."""

TIE = 1e-12
"""Two Q this close, relative to the larger, are equal."""


def is_flat(rewards: Rewards) -> bool:
    """Whether the rewards hold no contrast; fewer than two never do."""
    if len(rewards) < 2:
        return True
    values = np.asarray(rewards, dtype=np.float64)
    lowest, highest = float(values.min()), float(values.max())
    return highest - lowest <= EPSILONS * max(abs(lowest), abs(highest))


def centred(rewards: Rewards) -> Floats:
    """Rewards in ascending order, less the middle one.

    The middle one is one of them, so that the difference of two large rewards that
    lie close together is exact; sums of squares would lose it otherwise.
    """
    ranked = np.sort(np.asarray(rewards, dtype=np.float64))
    return ranked - ranked[(ranked.size - 1) // 2] if ranked.size else ranked


def q(rewards: Rewards) -> float:
    """Sum of squared deviations from the mean; 0 for a flat set, whose rest is rounding."""
    ranked = np.asarray(rewards, dtype=np.float64)
    if is_flat(ranked):
        return 0.0
    values = centred(ranked)
    return float(np.square(values - values.mean()).sum())


def spread(rewards: Rewards) -> float:
    """Population variance."""
    return q(rewards) / len(rewards) if len(rewards) else 0.0
