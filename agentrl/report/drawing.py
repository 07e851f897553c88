"""Charts in general: what all of them are made with.

In    curves of one or more runs
Out   Charts of the panels that have something in them, legends, rows of numbers
Not   a choice of what is drawn: curves.py, choice.py, costs.py and conduct.py make that
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from agentrl.report import series
from agentrl.report.document import Chart, Table
from agentrl.report.facts import Facts
from agentrl.report.lines import number as finite
from agentrl.report.panels import Line, Panel
from agentrl.report.series import Curve, Value
from agentrl.report.words import NONE, amount, number, percent

FEW = 12
"""Points of a curve whose numbers are written out."""
LONG = 24
"""Steps from which a noisy curve is drawn faint, with its mean on top."""
COLUMNS = 60
"""Most steps that a stack or a map of ranks shows apart."""
Named = tuple[tuple[str, Facts], ...]
"""Runs and what they are called; their place is their colour."""
Show = Callable[[float | None], str]
T = TypeVar("T")


def chart(
    title: str, says: str, panels: Iterable[Panel], runs: Named, numbers: Table
) -> Chart | None:
    """A chart of the panels that have something in them; None where none has."""
    filled = tuple(p for p in panels if p.cells or any(line.curve.x for line in p.lines))
    if not filled:
        return None
    legend = tuple((name, i, False) for i, (name, _) in enumerate(runs)) if len(runs) > 1 else ()
    return Chart(title, says, filled, legend, numbers)


def simple(
    runs: Named, name: str, title: str, unit: str, value: Value, *, share: bool = False
) -> Panel:
    """A figure of each run by step."""
    curves = [(run, series.curve(facts, value)) for run, facts in runs]
    lines = tuple(line for i, (_, curve) in enumerate(curves) for line in steady(curve, i))
    show = percent if share else number
    return Panel(name, title, ends(curves, show), "step", unit, lines=lines, share=share)


def steady(curve: Curve, colour: int, *, broken: bool = False) -> tuple[Line, ...]:
    """A noisy curve faint, and its mean over nearby steps; a short one as it is."""
    if len(curve.x) < LONG:
        return (Line(curve, colour, broken=broken),)
    mean = series.smoothed(curve, max(3, len(curve.x) // 10))
    return (Line(curve, colour, faint=True), Line(mean, colour, broken=broken))


def ends(curves: Sequence[tuple[str, Curve]], show: Show = number) -> str:
    """Sentences for those who do not see the curves: where each begins and ends."""
    told = [
        f"{name}: {show(curve.y[0])} at {amount(curve.x[0])}, "
        f"{show(curve.y[-1])} at {amount(curve.x[-1])}."
        for name, curve in curves
        if curve.y
    ]
    return " ".join(told)


def by_step(
    curves: Sequence[Curve], cells: Callable[[Curve, float | None], tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    """A row for each of a few steps, with what each curve has there."""
    every = sorted({x for curve in curves for x in curve.x})
    points = Curve(tuple(every), tuple(every))
    return tuple(
        (f"{x:g}", *(cell for curve in curves for cell in cells(curve, x)))
        for x in series.thinned(points, FEW).x
    )


def plain(curve: Curve, x: float | None) -> tuple[str, ...]:
    """The number that a curve has at a place."""
    at = curve.x.index(x) if x in curve.x else None
    return (NONE if at is None else number(curve.y[at]),)


def short(legend: Sequence[tuple[str, int, bool]]) -> tuple[tuple[str, int, bool], ...]:
    """Of a single run, without its name."""
    return tuple((name.rpartition(": ")[2], i, broken) for name, i, broken in legend)


def binned(values: Sequence[T]) -> list[Sequence[T]]:
    """Neighbours together, so that few parts are left."""
    wide = max(1, -(-len(values) // COLUMNS))
    return [values[i : i + wide] for i in range(0, len(values), wide)]


def table_rows(rows: Iterable[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Rows as a table holds them."""
    return tuple(tuple(row) for row in rows)


def largest(facts: Facts, metric: str) -> float | None:
    """The largest of any step."""
    known = (finite(row.get(metric)) for row in facts.rows)
    return max((value for value in known if value is not None), default=None)
