"""`agentrl runs`: what was trained, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.errors import UsageError
from agentrl.visible import visible

EXAMPLES = ("", "--out experiments --json")
_HEADS = ("name", "env", "model", "status", "steps", "held-out", "tokens", "age")
_RIGHT = ("steps", "tokens", "age")


def run(words: Sequence[str]) -> int:
    """List the runs, the newest first."""
    parser = Parser("runs", "list runs: what, how far, how good", EXAMPLES)
    parser.add_argument("--out", default="runs", metavar="DIR", help="folder of all runs [runs]")
    args = parser.read(words)
    if not Path(args.out).is_dir():
        raise UsageError(f"--out {args.out}: no such folder. Runs are written there by `train`.")
    with output(args.json) as out:
        found = listed(Path(args.out), datetime.now(UTC))
        out.document = found
        out.say(table(found) if found else f"{args.out}: no runs yet. Start one: agentrl train")
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
    return {
        "name": folder.path.name,
        "env": facts.get("env"),
        "model": facts.get("model"),
        "status": facts["status"],
        "steps": folder.steps(),
        "before": (heldout.get("before") or {}).get("mean"),
        "after": (heldout.get("after") or {}).get("mean"),
        "tokens": tokens.get("sampled"),
        "started": started,
        "age": None if started is None else (now - datetime.fromisoformat(started)).total_seconds(),
        "path": str(folder.path),
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The runs for a person."""
    cells = [_HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(_HEADS))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if head in _RIGHT else cell.ljust(width)
            for cell, width, head in zip(row, widths, _HEADS, strict=True)
        ).rstrip()
        for row in cells
    )


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    measured = f"{_number(row['before'])} -> {_number(row['after'])}"
    age = row["age"]
    return (
        *(visible(str(row[name] or "-")) for name in ("name", "env", "model", "status")),
        str(row["steps"]),
        measured if (row["before"], row["after"]) != (None, None) else "-",
        "-" if row["tokens"] is None else _large(row["tokens"]),
        "-" if age is None else _ago(age),
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _large(count: int) -> str:
    """A count with at most three digits before its unit."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def _ago(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"
