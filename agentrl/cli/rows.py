"""What `agentrl select` chooses from: numbers typed in, a file, or a recorded step.

In    words of the command line, lines of JSON, groups/NNNNNN.jsonl of a run
Out   Rows, one entry a trajectory
Not   a choice: select.py makes it
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agentrl import disk
from agentrl.errors import UsageError, suggestion
from agentrl.record import RunFolder

FIELDS = ("group", "reward", "tokens", "valid")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Rows:
    """What can be chosen from, one entry a trajectory."""

    rewards: list[float | None]
    tokens: list[int]
    groups: list[str]
    valid: list[bool]

    def reward(self, row: int) -> float:
        """A reward that is known to be there."""
        value = self.rewards[row]
        assert value is not None
        return value


def listed(rewards: str, tokens: str | None) -> Rows:
    """Numbers with commas between, all of one group."""
    values: list[float | None] = [_number("--rewards", text) for text in rewards.split(",")]
    size = len(values)
    costs = [1] * size if tokens is None else [whole("--tokens", t) for t in tokens.split(",")]
    if len(costs) != size:
        raise UsageError(f"--tokens: {len(costs)} numbers for {size} rewards. Give one for each.")
    return Rows(values, costs, ["0"] * size, [True] * size)


def recorded(run: RunFolder, step: int) -> Rows:
    """The trajectories of a step of a run, kept or not, grouped by task."""
    path = run.path / "groups" / f"{step:06d}.jsonl"
    if not path.is_file():
        steps = sorted(int(p.stem) for p in path.parent.glob("*.jsonl"))
        have = f"It has {steps[0]} to {steps[-1]}." if steps else "It has none."
        raise UsageError(f"--step {step}: {run.path} has no such step. {have}")
    rows = Rows([], [], [], [])
    for row in disk.rows(path):
        rows.rewards.append(row["reward"])
        rows.tokens.append(row["tokens"])
        rows.groups.append(row["task_id"])
        rows.valid.append(row["status"] != "error" and row["reward"] is not None)
    return rows


def read(file: str) -> Rows:
    """Lines of JSON with `reward` and perhaps the other fields; - is standard input."""
    rows = Rows([], [], [], [])
    for number, line in enumerate(_lines(file), 1):
        if line.strip():
            _add(rows, _object(f"{file}:{number}", line), f"{file}:{number}")
    return rows


def _number(flag: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{flag}: {text!r} is not a number.") from None


def whole(flag: str, text: str) -> int:
    """The whole number that a flag was given."""
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{flag}: {text!r} is not a whole number.") from None


def _lines(file: str) -> Iterable[str]:
    try:
        # Not splitlines: what a JSON string may hold unescaped, such as U+2028, ends no line.
        return sys.stdin if file == "-" else Path(file).read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise UsageError(f"--file {file}: cannot be read. {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--file {file}: not UTF-8 text (byte {error.start}).") from error


def _object(where: str, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise UsageError(f"{where}: not JSON. {error}.") from error
    if not isinstance(found, dict) or "reward" not in found:
        raise UsageError(f"{where}: a line is an object with a reward, and perhaps tokens.")
    for name in found:
        if name not in FIELDS:
            hint = suggestion(name, FIELDS, f"Known: {', '.join(FIELDS)}.")
            raise UsageError(f"{where}: {name} is not a field. {hint}")
    return found


def _add(rows: Rows, row: Mapping[str, Any], where: str) -> None:
    rows.rewards.append(_field(row, "reward", (int, float, type(None)), None, where))
    rows.tokens.append(_field(row, "tokens", (int,), 1, where))
    rows.groups.append(str(_field(row, "group", (str, int), 0, where)))
    rows.valid.append(_field(row, "valid", (bool,), True, where))


def _field(
    row: Mapping[str, Any], name: str, kinds: tuple[type, ...], absent: Value, where: str
) -> Any:
    value = row.get(name, absent)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise UsageError(f"{where}: {name} {json.dumps(value)} is not one. See `--help`.")
    return value
