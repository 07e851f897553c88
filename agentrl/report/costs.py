"""What a run cost: seconds by phase, memory foreseen and used.

In    Facts of one or more runs, and their names
Out   Charts; None where there is nothing to draw
Not   a judgement (health.py)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

from agentrl.report import series
from agentrl.report.document import Chart, Table
from agentrl.report.drawing import Named, binned, chart, ends, largest, short, table_rows
from agentrl.report.facts import Facts
from agentrl.report.lines import number as finite
from agentrl.report.lines import table
from agentrl.report.panels import Line, Panel
from agentrl.report.series import Curve, Value, of
from agentrl.report.words import NONE, count, number, percent, size

PHASES = ("rollout", "select", "update", "sync")


def seconds(runs: Named) -> Chart | None:
    """Seconds a step by phase, and memory foreseen and used."""
    panels = []
    for i, (name, facts) in enumerate(runs):
        layers = [_stacked(facts, of(f"time/{phase}")) for phase in PHASES]
        panels.append(
            Panel(
                f"seconds-{i}",
                f"Seconds a step: {name}" if len(runs) > 1 else "Seconds a step",
                f"{_seconds_said(facts)}.",
                "step",
                "seconds",
                kind="stack",
                lines=tuple(Line(layer, c) for c, layer in enumerate(layers)),
            )
        )
    head = ("seconds", *(n for n, _ in runs))
    known = [table(facts.run.get("seconds")) for _, facts in runs]
    names = [*PHASES, "eval", "other", "total"]
    rows = [(phase, *(_of_total(one, phase) for one in known)) for phase in names]
    found = chart(
        "Time",
        "Where the seconds of a step went. With steps played ahead, phases go on side by side.",
        [p for p in panels if p.lines and p.lines[0].curve.x],
        (),
        Table("Seconds of the whole run, and their share.", head, table_rows(rows)),
    )
    return found and replace(found, legend=tuple((p, i, False) for i, p in enumerate(PHASES)))


def _stacked(facts: Facts, value: Value) -> Curve:
    """Means over some steps each; a step without the figure counts as 0."""
    groups = binned(facts.rows)
    x = tuple(fmean(float(row["step"]) for row in some) for some in groups)
    return Curve(x, tuple(fmean(value(row) or 0.0 for row in some) for some in groups))


def _seconds_said(facts: Facts) -> str:
    told = [(phase, series.mean(facts, of(f"time/{phase}"))) for phase in PHASES]
    return "Mean of a step: " + ", ".join(f"{phase} {number(s, 2)} s" for phase, s in told)


def _of_total(seconds: Mapping[str, Any], phase: str) -> str:
    value, total = finite(seconds.get(phase)), finite(seconds.get("total"))
    if value is None:
        return NONE
    return f"{value:.1f}" + (f" ({percent(value / total)})" if total and phase != "total" else "")


def memory(runs: Named) -> Chart | None:
    """Peak memory of updates, foreseen and used."""
    lines = [
        line
        for i, (_, facts) in enumerate(runs)
        for line in (
            Line(series.curve(facts, _positive("update/peak_bytes")), i),
            Line(series.curve(facts, _positive("plan/predicted_bytes")), i, broken=True),
        )
    ]
    panel = Panel(
        "memory",
        "Peak memory of an update, used and foreseen",
        ends(
            [
                (f"{name} {what}", series.curve(facts, _positive(metric)))
                for name, facts in runs
                for what, metric in (
                    ("used", "update/peak_bytes"),
                    ("foreseen", "plan/predicted_bytes"),
                )
            ],
            size,
        ),
        "step",
        "",
        lines=tuple(lines),
        size=True,
    )
    rows = [
        ("largest used", *(size(largest(f, "update/peak_bytes") or None) for _, f in runs)),
        ("largest foreseen", *(size(largest(f, "plan/predicted_bytes")) for _, f in runs)),
        ("largest micro-batch, tokens", *(count(largest(f, "plan/cap")) for _, f in runs)),
    ]
    legend = [(f"{n}: {w}", i, b) for i, (n, _) in enumerate(runs) for w, b in _MEMORY]
    says = "Where a CPU's peak was an earlier one, no step says what it used."
    table = Table("", ("", *(n for n, _ in runs)), table_rows(rows))
    found = chart("Memory", says, [panel], runs, table)
    shown = [one for one, line in zip(legend, lines, strict=True) if line.curve.x]
    return found and replace(found, legend=tuple(shown) if len(runs) > 1 else short(shown))


_MEMORY = (("used", False), ("foreseen", True))


def _positive(metric: str) -> Value:
    """The metric where it is known: a peak of 0 is not."""
    return lambda row: finite(row.get(metric)) or None
