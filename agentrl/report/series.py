"""Rows of metrics → curves, by step, by seconds and by trained tokens.

In    Facts
Out   Curve: points in order, gaps left out
Not   smoothing: panels decide how a curve is drawn
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from agentrl.report.facts import Facts
from agentrl.report.lines import number

Value = Callable[[Mapping[str, Any]], float | None]


@dataclass(frozen=True, slots=True)
class Axis:
    """What a curve is drawn over."""

    name: str
    label: str
    metric: str
    """Summed up over the steps; empty counts the steps themselves."""
    unit: float = 1.0
    """What one on the axis is, in the metric's own unit."""


STEPS = Axis("step", "step", "")
TOKENS = Axis("tokens", "trained tokens", "update/trained_tokens")
TIMES = (
    Axis("time", "hours of training", "time/step", 3600.0),
    Axis("time", "minutes of training", "time/step", 60.0),
    Axis("time", "seconds of training", "time/step"),
)


def axes(every: Sequence[Facts]) -> tuple[Axis, Axis, Axis]:
    """Steps, time in a unit that suits the longest run, and trained tokens."""
    longest = max((total(facts, TIMES[0].metric) for facts in every), default=0.0)
    time = next((axis for axis in TIMES if longest >= 2 * axis.unit), TIMES[-1])
    return STEPS, time, TOKENS


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of one run."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    """Of an interval around each; empty where none is known."""
    high: tuple[float, ...] = ()


def of(metric: str) -> Value:
    """The metric of that name."""
    return lambda row: number(row.get(metric))


def curve(facts: Facts, value: Value, axis: Axis = STEPS) -> Curve:
    """A figure of every step, where it has one."""
    places = _places(facts, axis)
    points = [(places[_step(row)], value(row)) for row in facts.rows]
    known = [(x, y) for x, y in points if y is not None]
    return Curve(tuple(x for x, _ in known), tuple(y for _, y in known))


def heldout(facts: Facts, axis: Axis = STEPS) -> Curve:
    """Held-out accuracy, each time it was measured; step 0 lies at 0."""
    places = _places(facts, axis) | {0: 0.0}
    found = []
    for played in facts.heldout:
        accuracy = played.accuracy
        if accuracy is not None and played.step in places:
            found.append((places[played.step], accuracy))
    if not found:
        return curve(facts, of("heldout"), axis)
    return Curve(
        tuple(x for x, _ in found),
        tuple(a.mean for _, a in found),
        tuple(a.low for _, a in found),
        tuple(a.high for _, a in found),
    )


def kept_rewards(facts: Facts, axis: Axis = STEPS) -> Curve:
    """Mean reward of what was trained on, each step."""
    kept = {played.step: played.reward_kept for played in facts.steps}
    return curve(facts, lambda row: kept.get(_step(row)), axis)


def mean(facts: Facts, value: Value, *, last: int = 0) -> float | None:
    """Mean over the steps that have the figure, or over the last ones of them."""
    found = [v for v in map(value, facts.rows) if v is not None]
    found = found[-last:] if last else found
    return sum(found) / len(found) if found else None


def total(facts: Facts, metric: str) -> float:
    """Sum over all steps."""
    return sum(v for row in facts.rows if (v := number(row.get(metric))) is not None)


def thinned(curve: Curve, most: int) -> Curve:
    """At most so many points, evenly chosen, the first and the last among them."""
    size = len(curve.x)
    if size <= most:
        return curve
    kept = sorted({round(i * (size - 1) / (most - 1)) for i in range(most)})
    parts = (curve.x, curve.y, curve.low, curve.high)
    return Curve(*(_at(part, kept) for part in parts))


def smoothed(curve: Curve, width: int) -> Curve:
    """Each point the mean of those around it, so many at most."""
    half, sums = width // 2, [0.0, *accumulate(curve.y)]
    spans = [(max(0, i - half), min(len(curve.y), i + half + 1)) for i in range(len(curve.y))]
    return Curve(curve.x, tuple((sums[end] - sums[start]) / (end - start) for start, end in spans))


def _at(values: Sequence[float], places: Sequence[int]) -> tuple[float, ...]:
    return tuple(values[i] for i in places) if values else ()


def _step(row: Mapping[str, Any]) -> int:
    return int(row["step"])


def _places(facts: Facts, axis: Axis) -> dict[int, float]:
    """Where each step lies: what was spent until it ended."""
    steps = [_step(row) for row in facts.rows]
    if not axis.metric:
        return {step: float(step) for step in steps}
    spent = accumulate((number(row.get(axis.metric)) or 0.0) / axis.unit for row in facts.rows)
    return dict(zip(steps, spent, strict=True))
