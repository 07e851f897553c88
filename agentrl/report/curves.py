"""Did it learn: held-out accuracy, reward, loss.

In    Facts of one or more runs, and their names
Out   Charts over steps, time and trained tokens; None where there is nothing to draw
Not   pictures (charts.py), nor where they stand (sections.py)
"""

from __future__ import annotations

from dataclasses import replace

from agentrl.report import series
from agentrl.report.document import Chart, Table
from agentrl.report.drawing import Named, by_step, chart, ends, plain, short, steady
from agentrl.report.panels import Line, Panel
from agentrl.report.series import Curve, axes, of
from agentrl.report.words import NONE, number, percent


def heldout(runs: Named) -> Chart | None:
    """Held-out accuracy over each axis, with its band."""
    every = [facts for _, facts in runs]
    panels = [
        Panel(
            f"heldout-{axis.name}",
            f"Held-out accuracy by {axis.label}",
            ends([(name, series.heldout(facts, axis)) for name, facts in runs], percent),
            axis.label,
            "accuracy",
            lines=tuple(Line(series.heldout(f, axis), i, dots=True) for i, f in enumerate(every)),
            share=True,
        )
        for axis in axes(every)
    ]
    head = ("step", *(part for name, _ in runs for part in (name, "95% interval")))
    curves = [series.heldout(facts) for facts in every]
    rows = by_step(curves, _with_interval)
    says = "Share of held-out tasks solved, with 95% intervals by task."
    return chart("Held-out accuracy", says, panels, runs, Table("", head, rows))


def _with_interval(curve: Curve, x: float | None) -> tuple[str, ...]:
    at = curve.x.index(x) if x in curve.x else None
    if at is None:
        return NONE, NONE
    span = f"{number(curve.low[at])} to {number(curve.high[at])}" if curve.low else NONE
    return number(curve.y[at]), span


def reward(runs: Named) -> Chart | None:
    """Mean reward of all that was played, and of what was kept, over each axis."""
    every = [facts for _, facts in runs]
    panels = [
        Panel(
            f"reward-{axis.name}",
            f"Reward by {axis.label}",
            ends([(name, series.curve(facts, of("reward"), axis)) for name, facts in runs]),
            axis.label,
            "reward",
            lines=tuple(
                line
                for i, facts in enumerate(every)
                for line in (
                    *steady(series.curve(facts, of("reward"), axis), i),
                    *steady(series.kept_rewards(facts, axis), i, broken=True)[-1:],
                )
            ),
        )
        for axis in axes(every)
    ]
    legend = [(f"{n}: {what}", i, kept) for i, (n, _) in enumerate(runs) for what, kept in _KEPT]
    head = ("step", *(f"{name}: {what}" for name, _ in runs for what, _ in _KEPT))
    curves = [
        curve
        for facts in every
        for curve in (series.curve(facts, of("reward")), series.kept_rewards(facts))
    ]
    says = "Mean reward of training tasks: all that were played, and those that were trained on."
    table = Table("", head, by_step(curves, plain))
    found = chart("Reward", says, panels, runs, table)
    return found and replace(found, legend=tuple(legend) if len(runs) > 1 else short(legend))


_KEPT = (("all played", False), ("kept", True))


def losses(runs: Named) -> Chart | None:
    """Loss of learning from trajectories, of those learned from and those held out."""
    lines = [
        line
        for i, (_, facts) in enumerate(runs)
        for line in (
            Line(series.curve(facts, of("sft/loss")), i),
            Line(series.curve(facts, of("sft/heldout")), i, broken=True),
        )
    ]
    curves = [line.curve for line in lines]
    heads = [f"{name}: {what}" for name, _ in runs for what in ("trained", "held out")]
    panel = Panel(
        "losses",
        "Loss by update",
        ends(list(zip(heads, curves, strict=True))),
        "update",
        "nats a token",
        lines=tuple(lines),
    )
    legend = [(f"{n}: {w}", i, b) for i, (n, _) in enumerate(runs) for w, b in _LOSSES]
    table = Table("", ("update", *heads), by_step(curves, plain))
    found = chart("Loss", "Cross-entropy of a sampled token.", [panel], runs, table)
    return found and replace(found, legend=tuple(legend) if len(runs) > 1 else short(legend))


_LOSSES = (("trained", False), ("held out", True))
