"""What selection did: spread, flat groups, price, length, and which ranks were kept.

In    Facts of one or more runs, and their names
Out   Charts; None where there is nothing to draw
Not   why a row was kept: `agentrl select RUN --step K` and `agentrl view` say that
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from statistics import fmean

from agentrl.report import series
from agentrl.report.document import Chart, Table
from agentrl.report.drawing import (
    Named,
    Show,
    binned,
    chart,
    ends,
    largest,
    short,
    simple,
    steady,
    table_rows,
)
from agentrl.report.facts import Facts
from agentrl.report.panels import Panel
from agentrl.report.series import of
from agentrl.report.words import amount, count, number, percent

SELECTION: tuple[tuple[str, str, str, str, bool], ...] = (
    ("flat", "Groups without contrast", "groups a step", "select/flat", False),
    ("ratio", "Length of kept rows against equal rewards", "ratio", "select/length_ratio", False),
    ("price", "Price of a token", "reward² a token", "select/price", False),
)
"""Name, title, unit and metric; a panel whose figures are all 0 is left out."""


def selection(runs: Named) -> Chart | None:
    """Spread before and after, flat groups, length bias, price."""
    spread = Panel(
        "spread",
        "Spread of rewards, before and after selection",
        ends(
            [
                (f"{name} {when}", series.curve(facts, of(f"select/spread_{which}")))
                for name, facts in runs
                for when, which in (("before", "all"), ("after", "kept"))
            ]
        ),
        "step",
        "variance",
        lines=tuple(
            line
            for i, (_, facts) in enumerate(runs)
            for line in (
                *steady(series.curve(facts, of("select/spread_all")), i)[-1:],
                *steady(series.curve(facts, of("select/spread_kept")), i, broken=True)[-1:],
            )
        ),
    )
    more = [
        simple(runs, name, title, unit, of(metric), share=share)
        for name, title, unit, metric, share in SELECTION
    ]
    panels = [spread, *(p for p in more if any(y for line in p.lines for y in line.curve.y))]
    legend = [(f"{n}: {w}", i, b) for i, (n, _) in enumerate(runs) for w, b in _SPREADS]
    says = (
        "Spread is the variance of rewards within a task, mean over tasks. Selection keeps rows "
        "that lie far apart, so it should rise."
    )
    found = chart("What selection did", says, panels, runs, _selection_table(runs))
    return found and replace(found, legend=tuple(legend) if len(runs) > 1 else short(legend))


_SPREADS = (("before", False), ("after", True))
FIGURES: tuple[tuple[str, Callable[[Facts], float | None], Show], ...] = (
    ("trajectories played", lambda f: _sum(f, "select/of"), count),
    ("trajectories kept", lambda f: _sum(f, "select/kept"), count),
    ("tokens played", lambda f: _sum(f, "select/tokens_all"), amount),
    ("tokens kept", lambda f: _sum(f, "select/tokens_kept"), amount),
    ("spread before", lambda f: series.mean(f, of("select/spread_all")), number),
    ("spread after", lambda f: series.mean(f, of("select/spread_kept")), number),
    ("groups without contrast a step", lambda f: series.mean(f, of("select/flat")), number),
    ("steps with nothing to learn from", lambda f: _steps_without(f), count),
    ("price of a token", lambda f: series.mean(f, of("select/price")), number),
    ("length against equal rewards", lambda f: series.mean(f, of("select/length_ratio")), number),
    ("largest gap to the bound", lambda f: largest(f, "select/gap"), percent),
)


def _selection_table(runs: Named) -> Table:
    rows = [(name, *(show(figure(f)) for _, f in runs)) for name, figure, show in FIGURES]
    return Table(
        "Sums over all steps, and means of steps.", ("", *(n for n, _ in runs)), table_rows(rows)
    )


def _sum(facts: Facts, metric: str) -> float | None:
    return series.total(facts, metric) if facts.rows else None


def _steps_without(facts: Facts) -> float | None:
    known = [row for row in facts.rows if "select/kept" in row]
    return float(sum(not row["select/kept"] for row in known)) if known else None


def ranks(runs: Named) -> Chart | None:
    """Which ranks of a group were kept, over the steps."""
    panels = []
    tables = []
    for i, (name, facts) in enumerate(runs):
        steps = [p for p in facts.steps if p.ranks and any(r is not None for r in p.ranks)]
        if not steps:
            continue
        cells = [_mean_ranks([p.ranks for p in some]) for some in binned(steps)]
        whole = _mean_ranks([p.ranks for p in steps])
        panels.append(
            Panel(
                f"ranks-{i}",
                f"Ranks that were kept: {name}" if len(runs) > 1 else "Ranks that were kept",
                f"Of the lowest quarter {percent(_part(whole, 0))} were kept, of the highest "
                f"{percent(_part(whole, 3))}.",
                "step",
                "",
                kind="cells",
                cells=tuple(cells),
                extent=(float(steps[0].step or 0), float(steps[-1].step or 0)),
            )
        )
        tables.append((name, *(percent(_part(whole, quarter)) for quarter in range(4))))
    says = (
        "Each column is a step or some steps, the lowest reward of a group at the bottom. The "
        "stronger the colour, the more of that rank were kept. Equal rewards share their ranks; "
        "groups without contrast are left out."
    )
    head = ("", "lowest quarter", "second", "third", "highest quarter")
    return chart(
        "Ranks", says, panels, (), Table("Share kept, all steps.", head, table_rows(tables))
    )


def _mean_ranks(every: Sequence[tuple[float | None, ...]]) -> tuple[float | None, ...]:
    columns = ([v for v in column if v is not None] for column in zip_longest(*every))
    return tuple(fmean(column) if column else None for column in columns)


def _part(ranks: Sequence[float | None], quarter: int) -> float | None:
    wide = len(ranks) // 4
    known = [v for v in ranks[quarter * wide : (quarter + 1) * wide] if v is not None]
    return fmean(known) if known else None
