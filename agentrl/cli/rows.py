"""What `agentrl select` chooses from: numbers typed in, a file, or a recorded step.

In    words of the command line, lines of JSON, groups/NNNNNN.jsonl of a run
Out   Rows, one entry a trajectory
Not   a choice: asking.py makes it
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from agentrl.errors import UsageError, suggestion
from agentrl.record import RunFolder
from agentrl.selection.truncation import judged

FIELDS = ("group", "reward", "tokens", "valid", "truncated")
RECORDED = ("task_id", "reward", "tokens", "status")
_LINE = "Write an object with a reward, and perhaps tokens."
"""Fields of a recorded trajectory without which nothing can be chosen."""
REWARD = (int, float, type(None))
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Rows:
    """What can be chosen from, one entry a trajectory."""

    rewards: list[float | None] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    valid: list[bool] = field(default_factory=list)
    truncated: list[bool] = field(default_factory=list)
    """Whether it was cut off."""
    kept: list[bool] = field(default_factory=list)
    """Whether the run trained on it; empty where no run is explained."""
    advantages: list[float | None] = field(default_factory=list)
    """What the run trained each with, beside `kept`."""
    places: list[str] = field(default_factory=list)
    """`file:line` of each; empty for numbers that were typed in."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why a row is out, where the source knows it better than the selection can."""

    def reward(self, row: int) -> float:
        """A reward that is known to be there."""
        value = self.rewards[row]
        assert value is not None
        return value

    def under(self, policy: str) -> Rows:
        """The same rows where what was cut off counts as the policy says."""
        rewards, comparable = judged(self.rewards, self.truncated, policy)
        masked = {row: "truncated: masked" for row, fine in enumerate(comparable) if not fine}
        valid = [one and other for one, other in zip(self.valid, comparable, strict=True)]
        return replace(self, rewards=rewards, valid=valid, reasons=masked | self.reasons)


def listed(rewards: str, tokens: str | None) -> Rows:
    """Numbers with commas between, all of one group."""
    values: list[float | None] = [_number("--rewards", text) for text in rewards.split(",")]
    size = len(values)
    costs = [1] * size if tokens is None else [whole("--tokens", t) for t in tokens.split(",")]
    if len(costs) != size:
        raise UsageError(f"--tokens: {len(costs)} numbers for {size} rewards. Give one for each.")
    return Rows(values, costs, ["0"] * size, [True] * size, [False] * size)


def recorded(run: RunFolder, step: int) -> Rows:
    """The trajectories of a step of a run, kept or not, grouped by task."""
    path = run.path / "groups" / f"{step:06d}.jsonl"
    if not path.is_file():
        steps = sorted(int(p.stem) for p in path.parent.glob("*.jsonl") if p.stem.isdecimal())
        have = f"It has {steps[0]} to {steps[-1]}." if steps else "It has none."
        raise UsageError(f"--step {step}: {run.path} has no such step. {have}")
    rows, seen = Rows(), Counter[tuple[str, int]]()
    for where, line in _lines(str(path), str(path)):
        row = _object(where, line)
        for name in RECORDED:
            if name not in row:
                raise UsageError(f"{where}: no {name}. Give the folder of a run as it was written.")
        _add_recorded(rows, row, where, seen)
    return rows


def read(file: str) -> Rows:
    """Lines of JSON with `reward` and perhaps the other fields; - is standard input."""
    rows = Rows()
    for where, line in _lines(file, f"--file {file}"):
        row = _object(where, line)
        if "reward" not in row:
            raise UsageError(f"{where}: not a row with a reward. {_LINE}")
        for name in row:
            if name not in FIELDS:
                hint = suggestion(name, FIELDS, f"Known: {', '.join(FIELDS)}.")
                raise UsageError(f"{where}: {name} is not a field. {hint}")
        _add(rows, row, where)
    return rows


def _number(flag: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{flag}: {text!r} is not a number. Write one like 0.5.") from None


def whole(flag: str, text: str) -> int:
    """The whole number that a flag was given."""
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{flag}: {text!r} is not a whole number. Write one like 3.") from None


def _lines(file: str, named: str) -> Iterator[tuple[str, str]]:
    """Lines that are not empty, each with its place."""
    try:
        # Not splitlines: what a JSON string may hold unescaped, such as U+2028, ends no line.
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(
            f"{named}: cannot be read. {error.strerror}. Give a file of JSON lines."
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{named}: not UTF-8 text (byte {error.start}). Save it so.") from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{file}:{number}", line


def _object(where: str, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except RecursionError:
        raise UsageError(f"{where}: not a row. It is nested too deeply. {_LINE}") from None
    except ValueError as error:
        raise UsageError(f"{where}: not JSON. {error}. {_LINE}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{where}: not a row with a reward. {_LINE}")
    return found


def _add(rows: Rows, row: Mapping[str, Any], where: str) -> None:
    rows.rewards.append(_field(row, "reward", REWARD, None, where))
    rows.tokens.append(_field(row, "tokens", (int,), 1, where))
    rows.groups.append(str(_field(row, "group", (str, int), 0, where)))
    rows.valid.append(_field(row, "valid", (bool,), True, where))
    rows.truncated.append(_field(row, "truncated", (bool,), False, where))
    rows.places.append(where)


def _add_recorded(
    rows: Rows, row: Mapping[str, Any], where: str, seen: Counter[tuple[str, int]]
) -> None:
    task = str(_field(row, "task_id", (str, int), "", where))
    # Tasks may share a name that somebody gave them: the same member again is another group.
    member = task, _field(row, "member", (int,), -1 - len(rows.rewards), where)
    seen[member] += 1
    reward, status = _field(row, "reward", REWARD, None, where), row["status"]
    if status == "error":
        rows.reasons[len(rows.rewards)] = "status error: not the policy's doing"
    rows.rewards.append(reward)
    rows.tokens.append(_field(row, "tokens", (int,), 0, where))
    rows.groups.append(task if seen[member] == 1 else f"{task} #{seen[member]}")
    rows.valid.append(status != "error" and reward is not None)
    rows.truncated.append(status == "truncated")
    rows.kept.append(_field(row, "kept", (bool,), False, where))
    rows.advantages.append(_field(row, "advantage", REWARD, None, where))
    rows.places.append(where)


def _field(
    row: Mapping[str, Any], name: str, kinds: tuple[type, ...], absent: Value, where: str
) -> Any:
    value = row.get(name, absent)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise UsageError(f"{where}: {name} {json.dumps(value)} is not one. See `--help`.")
    return value
