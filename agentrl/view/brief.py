"""A recorded line → Brief: what a strip, a list and a table show of one trajectory.

In    lines of groups/, heldout/ or episodes.jsonl
Out   Brief, with the place of its line in the file; the task's words, cut short
Not   what was said: transcript.py reads it again, when it is shown
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrl import disk
from agentrl.task import LABELS

TITLE = 160
"""Characters of a task's words that are shown as its title."""

Named = tuple[tuple[str, float | None], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line lies."""

    path: Path
    start: int
    size: int
    """Bytes."""

    def row(self) -> dict[str, Any]:
        """The line itself."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            found: dict[str, Any] = json.loads(file.read(self.size))
        return found


@dataclass(frozen=True, slots=True)
class Brief:
    """One trajectory without its words."""

    task: str
    member: int
    reward: float | None
    kept: bool
    advantage: float | None
    weight: float
    tokens: int
    trained: int
    """Tokens that the policy sampled."""
    turns: int
    calls: int
    failed: int | None
    """Calls without a result; None where the line does not say."""
    stop: str
    status: str
    version: int | None
    correct: bool | None
    parts: Named
    """Named parts of the reward."""
    metrics: Named
    problem: str
    place: Place

    @property
    def valid(self) -> bool:
        """Whether its reward can be compared."""
        return self.reward is not None and self.status != "error"


def brief_of(row: Mapping[str, Any], place: Place) -> Brief:
    """The trajectory that a line tells of; what an older line does not say is empty."""
    advantage = number(row.get("advantage"))
    return Brief(
        task=sys.intern(str(row["task_id"])),
        member=whole(row["member"]),
        reward=number(row["reward"]),
        kept=row.get("kept") is True,
        advantage=advantage,
        weight=number(row.get("weight")) or 0.0,
        tokens=whole(row.get("tokens")),
        trained=whole(row.get("trained_tokens")),
        turns=whole(row.get("turns")),
        calls=whole(row.get("tool_calls")),
        failed=_failed(row),
        stop=sys.intern(str(row["stop"])),
        status=sys.intern(str(row["status"])),
        version=whole(row["version"]) if isinstance(row.get("version"), int) else None,
        correct=row["correct"] if isinstance(row.get("correct"), bool) else None,
        parts=_named(row.get("reward_parts")),
        metrics=_named(row.get("metrics")),
        problem=str(row.get("problem") or ""),
        place=place,
    )


def title_of(row: Mapping[str, Any]) -> str:
    """The beginning of what the task asks: the first words of the user."""
    messages = messages_of(row)
    asked = next((m for m in messages if m.get("role") == "user"), None) or (messages or [{}])[0]
    text = " ".join(str(asked.get("content") or "").split())
    text = text or f"task {row['task_id']}"
    return text if len(text) <= TITLE else f"{text[: TITLE - 1]}…"


def messages_of(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The conversation of a line, as far as it is one."""
    found = row["messages"]
    return [m for m in found if isinstance(m, Mapping)] if isinstance(found, list) else []


def outcomes_of(row: Mapping[str, Any]) -> list[list[str]] | None:
    """What became of each call, by turn; None where the line does not say."""
    found = row.get("outcomes")
    if not isinstance(found, list) or not all(isinstance(turn, list) for turn in found):
        return None
    return [[str(o.get("status")) for o in turn if isinstance(o, Mapping)] for turn in found]


def words_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What the task says of itself: environment of a mixture, difficulty, tags."""
    found: list[str] = []
    for name in LABELS:
        said = row.get(name)
        found += map(str, said) if isinstance(said, list) else [] if said is None else [str(said)]
    return tuple(found)


def number(value: object) -> float | None:
    """A finite number, or None."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def whole(value: object) -> int:
    """A whole number; 0 where there is none."""
    return value if isinstance(value, int) and abs(value) < 2**53 else 0


def _named(value: object) -> Named:
    if not isinstance(value, Mapping):
        return ()
    return tuple((sys.intern(str(name)), number(v)) for name, v in disk.plain(value).items())


def _failed(row: Mapping[str, Any]) -> int | None:
    outcomes = outcomes_of(row)
    return None if outcomes is None else sum(s != "ok" for turn in outcomes for s in turn)
