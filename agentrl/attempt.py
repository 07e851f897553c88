"""Attempt: what one episode adds to a measurement, from a trajectory or from its recorded line.

In    a Trajectory, or a line of episodes.jsonl, groups/*.jsonl or heldout/*.jsonl
Out   Attempt; and the fields that lines of an evaluation have beside those of a run
Not   words: a measurement of a hundred thousand episodes fits in memory
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentrl.record import Mark, episode_row
from agentrl.task import LABELS
from agentrl.trajectory import Trajectory, tool_calls, tool_failures


@dataclass(frozen=True, slots=True)
class Attempt:
    """One episode, counted."""

    task: str
    """Id of its task."""
    member: int
    stop: str
    status: str
    reward: float | None
    """None where it cannot be scored."""
    correct: bool | None
    turns: int
    tool_calls: int
    invalid_calls: int
    """Calls that did not come back with a result."""
    tokens: int
    """Sampled."""
    words: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What the task says of itself, by kind."""

    @property
    def valid(self) -> bool:
        """Whether it can be scored."""
        return self.reward is not None and self.status != "error"

    def labels(self, kind: str) -> tuple[str, ...]:
        """What the task says of itself under `env`, `difficulty` or `tags`."""
        return dict(self.words).get(kind, ())


def attempt_of(t: Trajectory) -> Attempt:
    """The attempt that an episode was."""
    meta = t.task.meta or {}
    return Attempt(
        task=str(t.task.id),
        member=t.member,
        stop=t.stop.value,
        status=t.stop.status,
        reward=t.reward,
        correct=t.correct,
        turns=len(t.turns),
        tool_calls=tool_calls(t.turns),
        invalid_calls=tool_failures(t.turns),
        tokens=t.num_trained_tokens,
        words=_words({name: meta.get(key) for name, key in LABELS.items()}),
    )


def attempt_in(row: Mapping[str, Any]) -> Attempt:
    """The attempt that a recorded line tells of."""
    return Attempt(
        task=str(row["task_id"]),
        member=int(row["member"]),
        stop=str(row["stop"]),
        status=str(row["status"]),
        reward=row["reward"],
        correct=row.get("correct"),
        turns=int(row["turns"]),
        tool_calls=int(row["tool_calls"]),
        invalid_calls=int(row.get("invalid_calls", 0)),
        tokens=int(row["trained_tokens"]),
        words=_words(row),
    )


def row_of(t: Trajectory, facts: Mapping[str, Any]) -> dict[str, Any]:
    """An evaluation's line: a run's, and all that a new reward needs to be computed from it."""
    row = episode_row(t, Mark(), tokens=False)
    own = {"task_hash": t.task.hash, "invalid_calls": tool_failures(t.turns)}
    return row | own | dict(facts)


def _words(said: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found = ((kind, labelled(said.get(kind), kind)) for kind in LABELS)
    return tuple((kind, words) for kind, words in found if words)


def labelled(said: Any, kind: str) -> tuple[str, ...]:
    """The words of a label; tags may be several."""
    several = kind == "tags" and isinstance(said, list | tuple)
    return tuple(str(word) for word in ((said or ()) if several else (said,)) if word is not None)
