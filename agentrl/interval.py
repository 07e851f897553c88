"""Means with honest 95% intervals, clustered by task.

In    one list of values per task (its attempts), or two such lists that are paired by task
Out   Interval(mean, low, high); the exact sign test of a paired difference
Not   a test of unpaired differences: two overlapping intervals may still differ

Attempts at one task resemble each other, so variances are those of whole tasks. That alone is
too narrow where tasks are few or nearly all go one way: docs/evaluation.md says what is added,
and how often the intervals then hold the truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

Z = 1.959963984540054
"""97.5% point of the normal distribution."""
WIDER = 1.01
"""Wilson's interval holds a little less than 95% at unlucky numbers of tasks."""
UNSEEN = 0.125
"""Tasks that are wholly right, and as many that are wholly wrong, which the estimate of how much
attempts resemble each other takes as seen: without them a sample without contrast is believed."""
EVEN = 0.5
"""Of a paired difference: tasks that are taken as seen where only one side is right, as many where
only the other is, and twice as many where both are alike (Agresti and Min, 2005)."""
_FEW = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the 95% interval around it."""

    mean: float
    low: float
    high: float

    def as_json(self) -> dict[str, float]:
        """The three numbers by name."""
        return {"mean": self.mean, "low": self.low, "high": self.high}


def share(clusters: Sequence[Sequence[float]]) -> Interval | None:
    """Mean of zeros and ones, or of other values between them.

    Wilson's interval with the t distribution of the number of tasks, at the effective number of
    attempts: so many independent ones would vary as these do.
    """
    filled = [c for c in clusters if c]
    if not filled:
        return None
    return share_of([math.fsum(c) for c in filled], [len(c) for c in filled])


def share_of(sums: Sequence[float], counts: Sequence[int]) -> Interval | None:
    """The same from each task's sum and number of attempts, at least one each."""
    if not counts:
        return None
    mean, low, high = shares(np.array(sums, float), np.array(counts, float))
    return Interval(float(mean), float(low), float(high))


def shares(sums: Array, counts: Array) -> tuple[Array, Array, Array]:
    """Mean, low and high of many samples at once; the last axis is that of tasks."""
    tasks, attempts = sums.shape[-1], counts.sum(-1)
    mean = sums.sum(-1) / attempts
    each = attempts[..., None] / tasks
    blurred = (mean * tasks + UNSEEN) / (tasks + 2 * UNSEEN)
    scatter = (((sums - counts * blurred[..., None]) / each) ** 2).sum(-1)
    scatter = scatter + UNSEEN * ((1 - blurred) ** 2 + blurred**2)
    # 1 where all attempts at a task end alike, 1 / attempts where they are independent.
    alike = scatter / ((tasks + 2 * UNSEEN) * blurred * (1 - blurred))
    size = np.clip(max(tasks - 1, 1) / alike, 1.0, np.maximum(attempts, 1.0))
    wide = (WIDER * t_point(tasks - 1)) ** 2 / size
    centre = (mean + wide / 2) / (1 + wide)
    half = np.sqrt(wide * mean * (1 - mean) + wide**2 / 4) / (1 + wide)
    low = np.clip(np.minimum(mean, centre - half), 0.0, 1.0)
    return mean, low, np.clip(np.maximum(mean, centre + half), 0.0, 1.0)


def average(clusters: Sequence[Sequence[float]]) -> Interval | None:
    """Mean of any values; those between 0 and 1 are a share, others get a t interval."""
    filled = [c for c in clusters if c]
    if not filled:
        return None
    if all(0.0 <= value <= 1.0 for c in filled for value in c):
        return share(filled)
    attempts, tasks = sum(map(len, filled)), len(filled)
    mean = math.fsum(v for c in filled for v in c) / attempts
    if tasks < 2:
        return Interval(mean, -math.inf, math.inf)
    scatter = math.fsum((math.fsum(c) - len(c) * mean) ** 2 for c in filled)
    half = t_point(tasks - 1) * math.sqrt(scatter / attempts**2 * tasks / (tasks - 1))
    return Interval(mean, mean - half, mean + half)


def difference(values: Sequence[float]) -> Interval | None:
    """Mean of differences, one a task; between -1 and 1 for shares.

    A t interval, after tasks were taken as seen that speak for either side: where nearly all
    tasks are alike, their scatter says too little. Their size is that of the largest difference,
    where that is more than 1.
    """
    if not values:
        return None
    mean, low, high = differences(np.array(values, float))
    return Interval(float(mean), float(low), float(high))


def differences(values: Array) -> tuple[Array, Array, Array]:
    """Mean, low and high of many samples at once; the last axis is that of tasks."""
    tasks = values.shape[-1]
    mean, more = values.mean(-1), tasks + 4 * EVEN
    unit = np.maximum(1.0, np.abs(values).max(-1))
    blurred = values.sum(-1) / more
    scatter = ((values - blurred[..., None]) ** 2).sum(-1)
    scatter = scatter + EVEN * ((unit - blurred) ** 2 + (unit + blurred) ** 2 + 2 * blurred**2)
    half = t_point(tasks - 1) * np.sqrt(scatter / more / (more - 1))
    return mean, np.minimum(mean, blurred - half), np.maximum(mean, blurred + half)


def sign_test(better: int, worse: int) -> float:
    """Chance of a split at least as uneven as this, were both sides equally likely; exact."""
    rounds, fewer = better + worse, min(better, worse)
    whole = math.lgamma(rounds + 1) - rounds * math.log(2)
    chances = (
        math.exp(whole - math.lgamma(i + 1) - math.lgamma(rounds - i + 1)) for i in range(fewer + 1)
    )
    return min(1.0, 2 * math.fsum(chances))


def t_point(freedom: int) -> float:
    """97.5% point of Student's t; of one degree of freedom at least.

    The first ten from tables, those beyond by the expansion of Cornish and Fisher.
    """
    if freedom <= len(_FEW):
        return _FEW[max(freedom, 1) - 1]
    z, n = Z, float(freedom)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / n ** (i + 1) for i, term in enumerate(terms))
