"""Means with honest 95% intervals, clustered by task.

In    one list of values per task (its attempts)
Out   Interval(mean, low, high)
Not   a test of a difference: two overlapping intervals may still differ
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z = 1.959963984540054
"""97.5% point of the normal distribution."""


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
    """Mean of zeros and ones: Wilson's interval at the effective number of attempts.

    Attempts at one task resemble each other, so the variance is that of the task means
    (cluster-robust); with one attempt a task this is in effect Wilson's interval, which stays
    honest at 0 and 1, where a normal interval has no width.
    """
    filled = [c for c in clusters if c]
    if not filled:
        return None
    mean, variance = _clustered(filled)
    attempts = sum(len(c) for c in filled)
    size = mean * (1 - mean) / variance if variance > 0 else float(len(filled))
    return _wilson(mean, min(max(size, 1.0), float(attempts)))


def average(clusters: Sequence[Sequence[float]]) -> Interval | None:
    """Mean of any values, with a normal interval over tasks."""
    filled = [c for c in clusters if c]
    if not filled:
        return None
    mean, variance = _clustered(filled)
    half = Z * math.sqrt(variance)
    return Interval(mean, mean - half, mean + half)


def _clustered(clusters: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Mean over attempts, and its variance from the scatter of whole tasks."""
    attempts = sum(len(c) for c in clusters)
    mean = math.fsum(v for c in clusters for v in c) / attempts
    tasks = len(clusters)
    if tasks < 2:
        return mean, 0.0
    scatter = math.fsum((math.fsum(c) - len(c) * mean) ** 2 for c in clusters)
    return mean, scatter / attempts**2 * tasks / (tasks - 1)


def _wilson(mean: float, size: float) -> Interval:
    spread = Z * Z / size
    centre = (mean + spread / 2) / (1 + spread)
    half = Z * math.sqrt(mean * (1 - mean) / size + spread / (4 * size)) / (1 + spread)
    return Interval(mean, max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half)))
