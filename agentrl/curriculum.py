"""Which levels of difficulty teach: tasks are drawn more often where half of the episodes succeed.

In    counts of correct episodes by level, which the run's checkpoints keep
Out   the chance that a drawn task is taken; new counts after a step
Not   a new order of tasks: they come as without it, and some are passed over

A group whose episodes all succeed, or all fail, teaches nothing, and with success rate p the
variance of its rewards is p(1-p). So that is the weight of a level. None gets less than a floor:
what was too hard may no longer be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentrl.errors import UsageError
from agentrl.task import LABELS, Task, TaskSource

MEMORY = 0.9
"""Of what was counted before, each step."""
FLOOR = 0.1
"""Least chance of a task."""
LOOK = 200
"""Tasks whose levels are looked at before a run."""
STREAM = 13
"""Keeps these draws apart from every other use of the run's seed."""

Counts = Mapping[str, Sequence[float]]
"""Level to correct and scored episodes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of the episodes of one task."""

    level: str
    correct: int
    scored: int


def level_of(task: Task) -> str:
    """A task's level of difficulty; in a mixture each environment has its own."""
    meta = task.meta or {}
    said = (meta.get(LABELS["env"]), meta.get(LABELS["difficulty"]))
    return ":".join(str(part) for part in said if part is not None)


def chance(level: str, counts: Counts) -> float:
    """Chance that a task of a level is taken; 1 where half succeed, or nothing is known yet."""
    correct, scored = counts.get(level, (0.0, 0.0))
    rate = (correct + 0.5) / (scored + 1.0)
    return max(FLOOR, 4.0 * rate * (1.0 - rate))


def takes(task: Task, counts: Counts, *, seed: int, cursor: int) -> bool:
    """Whether the task drawn at a place in the run is taken; a function of its arguments alone."""
    drawn = np.random.default_rng([seed, STREAM, cursor]).random()
    return bool(drawn < chance(level_of(task), counts))


def counted(counts: Counts, outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    """The counts after a step's episodes; older ones weigh less and less."""
    found = {level: [MEMORY * number for number in pair] for level, pair in counts.items()}
    for outcome in outcomes:
        pair = found.setdefault(outcome.level, [0.0, 0.0])
        pair[0] += outcome.correct
        pair[1] += outcome.scored
    return found


def refuse_without_levels(source: TaskSource) -> None:
    """Stop where there is nothing to choose from.

    Raises:
        UsageError: the first tasks name fewer than two levels.
    """
    levels = {level_of(source[i]) for i in range(min(LOOK, len(source)))}
    if len(levels) < 2:
        only = min(levels, default="") or "no name"
        raise UsageError(
            f"--train.curriculum: its tasks are all of one level ({only}). "
            "Levels are named in a task's meta, as difficulty. Leave it out, or name them."
        )
