"""The choice of a recorded step, made again as the run made it.

In    a run's folder; what each line of a step says
Out   Choice: price, bound and method, rewards as they were compared, and whether it is the same
Not   what the run kept: its lines say that, whatever comes out here
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrl import disk
from agentrl.cli.asking import Asked, asked_at, choose, costs, masked, settings_of
from agentrl.cli.rows import Rows
from agentrl.cli.strip import reasons, recorded
from agentrl.config import TrainConfig
from agentrl.record import RunFolder
from agentrl.selection.rules import RULES
from agentrl.view.brief import Brief
from agentrl.view.chapter import Choice, Chooser
from agentrl.view.why import Terms


def chooser(run: RunFolder) -> Chooser | None:
    """What makes the choices of a run again; None where its settings are not there."""
    config = settings_of(run)
    if config is None:
        return None
    caps = _Caps(run, config)

    def again(briefs: Sequence[Brief], groups: Sequence[str], step: int) -> Choice | None:
        return _again(rows_of(briefs, groups), asked_at(run, config, step, caps.at(step)))

    return again


def rows_of(briefs: Sequence[Brief], groups: Sequence[str]) -> Rows:
    """What a step's selection chose from."""
    return Rows(
        rewards=[b.reward for b in briefs],
        tokens=[b.tokens for b in briefs],
        groups=list(groups),
        valid=[b.valid for b in briefs],
        truncated=[b.status == "truncated" for b in briefs],
        kept=[b.kept for b in briefs],
        places=[f"{b.place.path.name}, task {b.task}, member {b.member}" for b in briefs],
        reasons={
            row: "infrastructure broke, which is not the policy's doing"
            for row, b in enumerate(briefs)
            if b.status == "error"
        },
    )


def _again(rows: Rows, wanted: Asked) -> Choice:
    rows = masked(rows, wanted)
    found = choose(rows, wanted)
    report, ran = found.report, recorded(found, rows)
    notes = {str(label): group.note or group.dropped for label, group in report.groups.items()}
    budget = wanted.options["token_budget"]
    return Choice(
        terms=Terms(
            rule=report.rule,
            m=wanted.options["cap"] or wanted.options["m"],
            price=report.price,
            drawn=wanted.options["within"] != "cheapest",
            left=None if budget is None else budget - report.cost_kept,
        ),
        method=report.method,
        rewards=rows.rewards,
        costs=costs(rows, wanted),
        out=reasons(found, rows),
        notes={label: note for label, note in notes.items() if note},
        budget=budget,
        gap=report.gap,
        q=report.q_kept,
        other=_other(rows, wanted, report.rule),
        same=ran is None or ran.same,
    )


def _other(rows: Rows, wanted: Asked, rule: str) -> tuple[str, float] | None:
    """The best of the other rules that are a choice; all of them is none."""
    found = {
        name: choose(rows, wanted.by(name)[0]).report.q_kept
        for name in RULES
        if name not in (rule, "all")
    }
    best = max(found, key=lambda name: found[name], default=None)
    return None if best is None else (best, found[best])


class _Caps:
    """Tokens of a micro-batch by step, where memory decided them."""

    def __init__(self, run: RunFolder, config: TrainConfig) -> None:
        self._path = run.metrics
        self._needed = config.update.tokens_per_micro_batch == "auto"
        self._known: dict[int, int] = {}

    def at(self, step: int) -> int | None:
        """Those of a step; the file is read again where a live run has written more."""
        if self._needed and step not in self._known and self._path.is_file():
            rows = disk.rows(self._path)
            self._known = {row["step"]: int(row["plan/cap"]) for row in rows if row.get("plan/cap")}
        return self._known.get(step)
