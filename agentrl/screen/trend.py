"""Trend: many numbers → a few characters, the oldest first.

In    numbers in their order, some of them missing
Out   at most so many characters, each as high as its numbers are on average
Not   a scale: the lowest is the lowest that there was, so a level of its own has no meaning
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from agentrl.glyphs import SPARKS

MIDDLE = SPARKS[3]
"""Where all are the same."""


def trend(values: Sequence[float | None], width: int) -> str:
    """Neighbours share a character where there are more numbers than characters."""
    known = [value for value in values if value is not None]
    if not known or width < 1:
        return ""
    levels = _binned(known, width)
    low, high = min(levels), max(levels)
    if not high > low:
        return MIDDLE * len(levels)
    return "".join(SPARKS[round((len(SPARKS) - 1) * (v - low) / (high - low))] for v in levels)


def _binned(values: Sequence[float], width: int) -> list[float]:
    count = min(width, len(values))
    edges = [round(i * len(values) / count) for i in range(count + 1)]
    return [fmean(values[a:b]) for a, b in pairwise(edges)]
