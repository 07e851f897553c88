"""Tasks → Measurement: how well a policy does on tasks, with honest intervals.

In    tasks, attempts at each, the same play as in training
Out   accuracy, reward, pass@k and pass-all, counts of what went wrong
Not   a judgement of the attempts that infrastructure broke: those are excluded and counted
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrl.env import ToolEnv
from agentrl.episode import Play
from agentrl.errors import RunError, UsageError
from agentrl.group import Group, OnDone, play_groups, seed_for
from agentrl.interval import Interval, average, share
from agentrl.task import LABELS, Task, TaskSource
from agentrl.trajectory import Stop, tool_calls, tool_failures

SEED_STEP = 2**31
"""The step that measurements draw with: the same draws before and after training."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured; shares and means are over attempts that can be scored."""

    tasks: int
    k: int
    episodes: int
    accuracy: Interval | None
    reward: Interval | None
    pass_at: dict[str, float]
    """Chance that at least one of j attempts is correct."""
    pass_all: dict[str, float]
    """Chance that all of j attempts are correct."""
    truncated: int
    errors: int
    """Attempts that cannot be scored; they are in `episodes` and in nothing else."""
    turns: float
    tool_calls: float
    invalid_calls: int
    """Calls that did not come back with a result."""
    tokens: int
    """Tokens sampled."""
    by: Mapping[str, Mapping[str, Mapping[str, Any]]]
    """Accuracy by what tasks say of themselves: mean, low, high and tasks of each word."""

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "tasks": self.tasks,
            "k": self.k,
            "episodes": self.episodes,
            "accuracy": None if self.accuracy is None else self.accuracy.as_json(),
            "reward": None if self.reward is None else self.reward.as_json(),
            "pass_at": self.pass_at,
            "pass_all": self.pass_all,
            "truncated": self.truncated,
            "errors": self.errors,
            "turns": self.turns,
            "tool_calls": self.tool_calls,
            "invalid_calls": self.invalid_calls,
            "tokens": self.tokens,
            "by": self.by,
        }


def distinct(source: TaskSource, count: int, where: str) -> list[Task]:
    """The first tasks of a source that differ in content.

    Raises:
        UsageError: the source has none.
    """
    found: dict[str, Task] = {}
    for index in range(len(source)):
        if len(found) == count:
            break
        task = source[index]
        found.setdefault(task.hash, task)
    if count and not found:
        raise UsageError(f"{where}: it has no tasks. There is nothing to measure on.")
    return list(found.values())


async def measure(
    make_env: Callable[[Task], ToolEnv],
    tasks: Sequence[Task],
    *,
    k: int,
    seed: int,
    world: Play,
    on_done: OnDone | None = None,
) -> tuple[Measurement, list[Group]]:
    """Attempt every task k times and say how it went."""
    groups = await play_groups(
        make_env,
        tasks,
        n=k,
        seed_of=lambda task, member: seed_for(seed, SEED_STEP, task.hash, member),
        world=world,
        on_done=on_done,
    )
    return summarize(groups, k), groups


def refuse_if_all_broke(groups: Sequence[Group], where: str) -> None:
    """Stop where infrastructure broke every single episode: more of them would break too.

    Raises:
        RunError: with what broke the first one.
    """
    every = [t for g in groups for t in g.trajectories]
    if every and all(t.stop is Stop.ENV_ERROR for t in every):
        raise RunError(
            f"{where}: the environment broke all {len(every)} episodes, each of them twice. "
            f"The first said: {every[0].problem.rstrip('. ')}. Mend it and go on with --resume."
        )


def summarize(groups: Sequence[Group], k: int) -> Measurement:
    """The measurement that these attempts make."""
    every = [t for g in groups for t in g.trajectories]
    scored = [[t for t in g.trajectories if t.valid] for g in groups]
    correct = [[float(bool(t.correct)) for t in row] for row in scored]
    size = max(1, len(every))
    return Measurement(
        tasks=len(groups),
        k=k,
        episodes=len(every),
        accuracy=share(correct),
        reward=average([[t.reward for t in row if t.reward is not None] for row in scored]),
        pass_at={str(j): _mean(correct, j, _any_of) for j in _ladder(k)},
        pass_all={str(j): _mean(correct, j, _all_of) for j in _ladder(k)},
        truncated=sum(t.stop.status == "truncated" for t in every),
        errors=sum(not t.valid for t in every),
        turns=sum(len(t.turns) for t in every) / size,
        tool_calls=sum(tool_calls(t.turns) for t in every) / size,
        invalid_calls=sum(tool_failures(t.turns) for t in every),
        tokens=sum(t.num_trained_tokens for t in every),
        by={kind: found for kind in LABELS if (found := _by(kind, groups, correct))},
    )


def labels(task: Task, kind: str) -> list[str]:
    """What a task says of itself under `env`, `difficulty` or `tags`."""
    said = (task.meta or {}).get(LABELS[kind])
    several = kind == "tags" and isinstance(said, list | tuple)
    return [str(word) for word in ((said or ()) if several else (said,)) if word is not None]


def _by(
    kind: str, groups: Sequence[Group], correct: Sequence[Sequence[float]]
) -> dict[str, dict[str, Any]]:
    rows: dict[str, list[Sequence[float]]] = {}
    for group, row in zip(groups, correct, strict=True):
        for word in labels(group.task, kind):
            rows.setdefault(word, []).append(row)
    return {word: _told(rows[word]) for word in sorted(rows)}


def _told(rows: Sequence[Sequence[float]]) -> dict[str, Any]:
    found = share(rows)
    known = dict.fromkeys(("mean", "low", "high")) if found is None else found.as_json()
    return {**known, "tasks": len(rows)}


def _ladder(k: int) -> list[int]:
    """1, 2, 4, ... and k itself."""
    return sorted({1 << i for i in range(k.bit_length()) if 1 << i <= k} | {k})


def _mean(
    correct: Sequence[Sequence[float]], j: int, chance: Callable[[int, int, int], float]
) -> float:
    """Unbiased over tasks with at least j scored attempts."""
    values = [chance(len(row), int(sum(row)), j) for row in correct if len(row) >= j]
    return math.fsum(values) / len(values) if values else math.nan


def _any_of(attempts: int, hits: int, j: int) -> float:
    return 1.0 - math.comb(attempts - hits, j) / math.comb(attempts, j)


def _all_of(attempts: int, hits: int, j: int) -> float:
    return math.comb(hits, j) / math.comb(attempts, j)
