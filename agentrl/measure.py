"""Tasks → Measurement: how well a policy does on tasks, with honest intervals.

In    tasks, attempts at each, the same play as in training
Out   accuracy, reward, pass@k and pass-all, counts of what went wrong
Not   a judgement of the attempts that infrastructure broke: those are excluded and counted
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from agentrl.attempt import Attempt, attempt_of, labelled
from agentrl.env import ToolEnv
from agentrl.episode import Play
from agentrl.errors import RunError, UsageError
from agentrl.group import Group, OnDone, play_groups, seed_for
from agentrl.interval import Interval, average, share
from agentrl.task import LABELS, Task, TaskSource
from agentrl.trajectory import Stop

SEED_STEP = 2**31
"""The step that measurements draw with: the same draws before and after training."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured; shares and means are over attempts that can be scored."""

    tasks: int
    k: int
    episodes: int
    accuracy: Interval | None
    """Over attempts that can be scored."""
    accuracy_errors_wrong: Interval | None
    """Over all attempts; those that cannot be scored count as wrong."""
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
    tokens_per_turn: float
    """NaN without a turn."""
    stops: Mapping[str, int]
    """Attempts by why they ended."""
    by: Mapping[str, Mapping[str, Mapping[str, Any]]]
    """Accuracy by what tasks say of themselves: mean, low, high and tasks of each word."""

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        names = (field.name for field in fields(self))
        return {name: _plain(getattr(self, name)) for name in names}


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
            f"{where}: the environment broke all {len(every)} episodes, also when "
            f"they were played again. The first said: {every[0].problem.rstrip('. ')}. "
            "Mend it and go on with --resume."
        )


def summarize(groups: Sequence[Group], k: int) -> Measurement:
    """The measurement that these groups make."""
    return summary_of([[attempt_of(t) for t in g.trajectories] for g in groups], k)


def summary_of(tasks: Sequence[Sequence[Attempt]], k: int) -> Measurement:
    """The measurement that attempts make, in the order of their tasks; each has one at least."""
    every = [a for row in tasks for a in row]
    scored = [[a for a in row if a.valid] for row in tasks]
    correct = [[float(bool(a.correct)) for a in row] for row in scored]
    wrong = [[float(a.valid and bool(a.correct)) for a in row] for row in tasks]
    size, turns = max(1, len(every)), sum(a.turns for a in every)
    tokens = sum(a.tokens for a in every)
    return Measurement(
        tasks=len(tasks),
        k=k,
        episodes=len(every),
        accuracy=share(correct),
        accuracy_errors_wrong=share(wrong),
        reward=average([[a.reward for a in row if a.reward is not None] for row in scored]),
        pass_at={str(j): _mean(correct, j, _any_of) for j in _ladder(k)},
        pass_all={str(j): _mean(correct, j, _all_of) for j in _ladder(k)},
        truncated=sum(a.status == "truncated" for a in every),
        errors=sum(not a.valid for a in every),
        turns=turns / size,
        tool_calls=sum(a.tool_calls for a in every) / size,
        invalid_calls=sum(a.invalid_calls for a in every),
        tokens=tokens,
        tokens_per_turn=tokens / turns if turns else math.nan,
        stops=dict(sorted(Counter(a.stop for a in every).items())),
        by={kind: found for kind in LABELS if (found := _by(kind, tasks, correct))},
    )


def labels(task: Task, kind: str) -> list[str]:
    """What a task says of itself under `env`, `difficulty` or `tags`."""
    return list(labelled((task.meta or {}).get(LABELS[kind]), kind))


def _plain(value: Any) -> Any:
    return value.as_json() if isinstance(value, Interval) else value


def _by(
    kind: str, tasks: Sequence[Sequence[Attempt]], correct: Sequence[Sequence[float]]
) -> dict[str, dict[str, Any]]:
    rows: dict[str, list[Sequence[float]]] = {}
    for attempts, row in zip(tasks, correct, strict=True):
        for word in attempts[0].labels(kind) if attempts else ():
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
