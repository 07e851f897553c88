"""Calibration: a prediction, corrected by the peaks that a device really had.

In    a signature, a predicted floor and slope; tokens and peak of whole micro-batches
Out   the peak of any micro-batch, and the most tokens that fit, both from what was seen
Not   for anything but its own signature; nor a peak of forward alone: what is observed must
      run through loss, backward and, once, the optimizer's step
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from agentrl.memory.footprint import footprint, largest, need
from agentrl.memory.regime import Regime
from agentrl.memory.shape import Shape

GROWTH = 4
"""A micro-batch may be so many times as long as the longest that was seen to fit; half as
many while the slope is only predicted."""

FIRST = 8
"""Before anything was seen, what is predicted to fit is cut by this."""

_KEPT = 32
"""Observations that are remembered."""

_POINTS = tuple(4**power for power in range(12))

_FADING = 0.9

_FAR = 2
"""A slope needs two observations whose tokens differ by this factor."""


def signature(shape: Shape, regime: Regime, *device: str) -> str:
    """What a calibration holds for: every size, choice, and the words for device and kernels."""
    facts = (sorted(asdict(shape).items()), sorted(asdict(regime).items()), device)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Calibration:
    """peak = floor + slope · tokens, with floor and slope found apart from each other."""

    signature: str
    floor: float
    """Bytes however few the tokens; never scaled by them."""
    slope: float
    """Bytes a token, as far as was seen."""
    residual: float
    """Bytes by which a peak lately lay above what had been predicted; fades."""
    predicted_slope: float
    """Bytes a token by the static formula: beyond what was seen, the steeper one counts."""
    seen: tuple[tuple[int, int], ...] = ()
    """(tokens, peak), by tokens."""

    @classmethod
    def predicted(cls, shape: Shape, regime: Regime, *device: str) -> Calibration:
        """Start from the static formula: its slope for many tokens, and no peak below it."""
        peaks = {n: footprint(shape, regime, n).total for n in _POINTS}
        far, farther = _POINTS[-2:]
        slope = (peaks[farther] - peaks[far]) / (farther - far)
        floor = max(peak - slope * n for n, peak in peaks.items())
        return cls(signature(shape, regime, *device), floor, slope, 0.0, slope)

    def observe(self, tokens: int, peak: int) -> Calibration:
        """Learn from one whole micro-batch."""
        error = peak - self.peak(tokens) if tokens <= self.longest else 0
        seen = _remembered(self.seen, tokens, peak)
        slope = _slope(seen, self.slope)
        # The line goes through the longest: what fits is decided there and beyond.
        longest, highest = seen[-1]
        floor = highest - slope * longest
        residual = max(0.0, error, _FADING * self.residual)
        return replace(self, floor=floor, slope=slope, residual=residual, seen=seen)

    def peak(self, tokens: int) -> int:
        """Predicted bytes of a micro-batch: the line, but no less than a shorter one took."""
        inside = min(tokens, self.longest) if self.seen else tokens
        beyond = (tokens - inside) * max(self.slope, self.predicted_slope)
        line = self.floor + self.slope * inside + beyond
        took = (peak for n, peak in self.seen if n <= max(tokens, self.seen[0][0]))
        return round(max(line, *took, 0.0) + self.residual)

    @property
    def longest(self) -> int:
        """Tokens of the longest micro-batch that was seen."""
        return self.seen[-1][0] if self.seen else 0

    def most_tokens(self, memory_bytes: int) -> int:
        """The most tokens to try next; 0 where nothing fits."""

        def fits(tokens: int) -> bool:
            return need(self.peak(tokens)) <= memory_bytes

        most = largest(fits)
        if not self.seen:
            return most and max(1, most // FIRST)
        known = _FAR * self.seen[0][0] <= self.longest
        return min(most, (GROWTH if known else _FAR) * self.longest)

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], wanted: str) -> Calibration | None:
        """A saved calibration; None where it was made for another signature."""
        if data.get("signature") != wanted:
            return None
        seen = tuple((int(tokens), int(peak)) for tokens, peak in data["seen"])
        names = ("floor", "slope", "residual", "predicted_slope")
        floor, slope, residual, predicted = (float(data[name]) for name in names)
        return cls(wanted, floor, slope, residual, predicted, seen)


def _remembered(
    seen: tuple[tuple[int, int], ...], tokens: int, peak: int
) -> tuple[tuple[int, int], ...]:
    """Those seen, with one more.

    A shorter one that took more than a longer one has since is forgotten: something else took it,
    such as kernels that were tried out at the start.
    """
    highest = max([peak, *(p for n, p in seen if n == tokens)])
    others = [(n, p) for n, p in seen if n > tokens or (n < tokens and p <= peak)]
    if len(others) == _KEPT:
        # The one nearest to the next tells least; the longest is needed most.
        gaps = [after[0] - before[0] for before, after in pairwise(others)]
        del others[gaps.index(min(gaps))]
    return tuple(sorted([*others, (tokens, highest)]))


def _slope(seen: tuple[tuple[int, int], ...], otherwise: float) -> float:
    """Steepest line from a much shorter micro-batch to the longest.

    A peak is the fullest of several moments, so it bends upwards with the tokens: its slope at
    the longest is what counts beyond.
    """
    longest, highest = seen[-1]
    slopes = [(highest - p) / (longest - n) for n, p in seen if n * _FAR <= longest]
    return max(0.0, *slopes) if slopes else otherwise
