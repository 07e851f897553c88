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
    return _alike(float(values.min()), float(values.max()))


def ascending_is_flat(rewards: Floats) -> bool:
    """The same of rewards in ascending order."""
    return rewards.size < 2 or _alike(float(rewards[0]), float(rewards[-1]))


def q(rewards: Rewards) -> float:
    """Sum of squared deviations from the mean; 0 for a flat set, whose rest is rounding."""
    return ascending_q(np.sort(np.asarray(rewards, dtype=np.float64)))


def ascending_q(rewards: Floats) -> float:
    """The same of rewards in ascending order.

    The middle one is taken off first. It is one of them, so that the difference of two large
    rewards that lie close together is exact; sums of squares would lose it otherwise.
    """
    if ascending_is_flat(rewards):
        return 0.0
    values = rewards - rewards[(rewards.size - 1) // 2]
    values -= values.sum() / values.size
    return float(np.square(values).sum())


def spread(rewards: Rewards) -> float:
    """Population variance."""
    return q(rewards) / len(rewards) if len(rewards) else 0.0


def _alike(lowest: float, highest: float) -> bool:
    """Whether rewards from the one to the other hold no contrast."""
    return highest - lowest <= EPSILONS * max(abs(lowest), abs(highest))
