"""How the policy behaved: calls of tools, turns, and how episodes stopped.

In    Facts of one or more runs, and their names
Out   Charts; None where there is nothing to draw
Not   transcripts (transcripts.py)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from agentrl.report import series
from agentrl.report.document import Chart, Table
from agentrl.report.drawing import Named, binned, by_step, chart, plain, simple, table_rows
from agentrl.report.facts import Facts
from agentrl.report.panels import Line, Panel
from agentrl.report.series import Curve, of
from agentrl.report.words import percent
from agentrl.trajectory import Stop

ENDS = tuple(stop.value for stop in Stop)


def tools(runs: Named) -> Chart | None:
    """Calls of an episode, failed ones, and turns."""
    panels = [
        simple(runs, "calls", "Calls an episode", "calls", of("env/tool_calls")),
        simple(runs, "failed", "Calls that failed", "share", of("env/tool_failures"), share=True),
        simple(runs, "turns", "Turns an episode", "turns", of("env/turns")),
    ]
    head = ("step", *(f"{name}: {what}" for name, _ in runs for what in ("calls", "failed")))
    curves = [
        series.curve(facts, of(f"env/tool_{what}"))
        for _, facts in runs
        for what in ("calls", "failures")
    ]
    says = "Means over all episodes of a step."
    return chart("Calls and turns", says, panels, runs, Table("", head, by_step(curves, plain)))


def stops(runs: Named) -> Chart | None:
    """Why episodes ended, as shares of a step."""
    known = [s for s in ENDS if any(p.stops[s] for _, f in runs for p in f.steps)]
    panels = []
    for i, (name, facts) in enumerate(runs):
        if facts.steps:
            panels.append(_stops_panel(f"stops-{i}", name if len(runs) > 1 else "", facts, known))
    rows = []
    for name, facts in runs:
        for what, some in (("first step", facts.steps[:1]), ("last step", facts.steps[-1:])):
            for played in some:
                shares = (percent(played.stops[s] / played.episodes) for s in known)
                rows.append((f"{name}: {what}" if len(runs) > 1 else what, *shares))
    found = chart(
        "How episodes stopped",
        "answer and tool_end are ends of the task itself; the others are limits, and env_error is "
        "infrastructure.",
        panels,
        (),
        Table("", ("", *known), table_rows(rows)),
    )
    return found and replace(found, legend=tuple((s, i, False) for i, s in enumerate(known)))


def _stops_panel(name: str, run: str, facts: Facts, known: Sequence[str]) -> Panel:
    groups = binned(facts.steps)
    x = tuple(fmean(p.step or 0 for p in some) for some in groups)
    layers = [
        Curve(x, tuple(sum(p.stops[s] for p in g) / sum(p.episodes for p in g) for g in groups))
        for s in known
    ]
    last = facts.steps[-1]
    said = ", ".join(f"{s} {percent(last.stops[s] / last.episodes)}" for s in known)
    return Panel(
        name,
        f"How episodes stopped: {run}" if run else "How episodes stopped",
        f"In the last step: {said}.",
        "step",
        "",
        kind="stack",
        lines=tuple(Line(layer, i) for i, layer in enumerate(layers)),
        share=True,
    )
