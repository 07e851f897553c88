"""`agentrl runs`: what was trained, as a table or as JSON."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentrl import disk
from agentrl.amounts import large
from agentrl.cli.output import output
from agentrl.cli.paper import columns, drawn
from agentrl.cli.parser import Parser
from agentrl.errors import UsageError
from agentrl.screen.trend import trend
from agentrl.visible import on_a_line

EXAMPLES = ("", "--out experiments --json")
_HEADS = ("name", "env", "model", "status", "steps", "reward", "trend", "held-out", "tokens", "age")
_RIGHT = ("steps", "reward", "tokens", "age")
_SPARE = ("tokens", "model", "trend", "env", "age")
"""Columns that a narrow terminal does without, the first to go first."""
_TREND = 12
_MOST = 160
_STYLES = {"done": "green", "running": "cyan", "stopped": "yellow", "failed": "red"}


def run(words: Sequence[str]) -> int:
    """List the runs, the newest first."""
    parser = Parser("runs", "list runs: what, how far, how good", EXAMPLES)
    parser.add_argument("--out", default="runs", metavar="DIR", help="folder of all runs [runs]")
    args = parser.read(words)
    if not Path(args.out).is_dir():
        raise UsageError(
            f"--out {args.out}: no such folder. Name the one that `agentrl train` wrote."
        )
    with output(args.json) as out:
        found = listed(Path(args.out), datetime.now(UTC))
        out.document = found
        none = f"{on_a_line(args.out)}: no runs yet. Start one: agentrl train"
        out.draw(table(found, columns(_MOST)) if found else none)
    return 0


def listed(root: Path, now: datetime) -> list[dict[str, Any]]:
    """One row a run; one that cannot be read says so in its status."""
    from agentrl.record import RUN, RunFolder, by_age

    rows = []
    for path in by_age(root):
        try:
            facts = RunFolder(path).read_run()
        except UsageError:
            facts = {"status": f"{RUN} is broken"}
        rows.append(_row(RunFolder(path), facts, now))
    return rows


def _row(folder: Any, facts: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    heldout, tokens = facts.get("heldout") or {}, facts.get("tokens") or {}
    started = facts.get("started")
    steps, rewards = _rewards(folder)
    return {
        "name": folder.path.name,
        "env": facts.get("env"),
        "model": facts.get("model"),
        "status": facts["status"],
        "steps": steps,
        "of": _wanted(folder),
        "reward": rewards[-1] if rewards else None,
        "rewards": rewards,
        "before": (heldout.get("before") or {}).get("mean"),
        "after": (heldout.get("after") or {}).get("mean"),
        "tokens": tokens.get("sampled"),
        "started": started,
        "age": None if started is None else (now - datetime.fromisoformat(started)).total_seconds(),
        "path": str(folder.path),
    }


def _rewards(folder: Any) -> tuple[int, list[float | None]]:
    """Steps that were done, and the mean reward of each."""
    if not folder.metrics.exists():
        return 0, []
    rows = list(disk.rows(folder.metrics))
    steps = max((int(row["step"]) for row in rows), default=0)
    return steps, [row.get("reward") for row in rows]


def _wanted(folder: Any) -> int | None:
    """Steps that were asked for; None where the settings do not say."""
    try:
        settings = tomllib.loads((folder.path / "config.toml").read_text(encoding="utf-8"))
        return int(settings["train"]["steps"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def table(rows: Sequence[Mapping[str, Any]], width: int = _MOST) -> str:
    """The runs for a person, in so many columns."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    cells = [dict(zip(_HEADS, _cells(row), strict=True)) for row in rows]
    widths = {head: max(cell_len(c[head]) for c in (*cells, {head: head})) for head in _HEADS}
    heads = list(_HEADS)
    for head in _SPARE:
        if sum(widths[h] + 2 for h in heads) - 2 > width:
            heads.remove(head)
    sheet = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in heads:
        right = head in _RIGHT
        sheet.add_column(head, justify="right" if right else "left", no_wrap=True)
    for row, line in zip(rows, cells, strict=True):
        style = _STYLES.get(row["status"], "red")
        sheet.add_row(*(Text(line[h], style if h == "status" else "") for h in heads))
    return drawn(sheet, width)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    measured = f"{_number(row['before'])} -> {_number(row['after'])}"
    age, of = row["age"], row["of"]
    return (
        *(on_a_line(str(row[name] or "-")) for name in ("name", "env", "model", "status")),
        f"{row['steps']}/{of}" if of else str(row["steps"]),
        _number(row["reward"]),
        trend(row["rewards"], _TREND),
        measured if (row["before"], row["after"]) != (None, None) else "-",
        "-" if row["tokens"] is None else large(row["tokens"]),
        "-" if age is None else _ago(age),
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _ago(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"
