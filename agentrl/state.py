"""Where a run stands: the part of a checkpoint that is neither weights nor optimiser.

In    what the training loop counts
Out   Standing: step, version, tasks drawn so far; saved and loaded as JSON
Not   random state: every draw is a function of seed, step, task and member
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agentrl.curriculum import takes
from agentrl.errors import UsageError
from agentrl.task import Task, TaskSource

ORDER_STREAM = 11
"""Keeps the order of tasks apart from every other use of the run's seed."""


@dataclass(slots=True)
class Standing:
    """The counters of a run."""

    step: int = 0
    version: int = 0
    cursor: int = 0
    """Tasks drawn so far."""
    flat_in_a_row: int = 0
    shorter_in_a_row: int = 0
    """Steps whose kept rows were far shorter than others of their reward."""
    tokens: dict[str, int] = field(
        default_factory=lambda: {"sampled": 0, "trained": 0, "forwarded": 0}
    )
    seconds: dict[str, float] = field(default_factory=dict)
    levels: dict[str, list[float]] = field(default_factory=dict)
    """Correct and scored episodes by level of difficulty, where a curriculum counts them."""

    def save(self, folder: Path) -> None:
        """Write the counters."""
        (folder / "standing.json").write_text(json.dumps(asdict(self)), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Take the counters from disk."""
        found = json.loads((folder / "standing.json").read_text(encoding="utf-8"))
        for name, value in found.items():
            setattr(self, name, value)


def draw(
    source: TaskSource, standing: Standing, *, seed: int, count: int, curriculum: bool = False
) -> list[Task]:
    """The next tasks of the run, all different in content; moves the cursor.

    Every epoch is a new permutation of the source, drawn from the seed and the epoch. With a
    curriculum some tasks are passed over, as long as enough others are left.

    Raises:
        UsageError: the source has too few different tasks for one step.
    """
    if not len(source):
        raise UsageError("--env: it has no tasks of the split train. There is nothing to learn on.")
    found: dict[str, Task] = {}
    for choosy in (True, False) if curriculum else (False,):
        for _ in range(2 * len(source) + count):
            if len(found) == count:
                break
            cursor = standing.cursor
            task = source[_position(len(source), cursor, seed)]
            standing.cursor += 1
            if not choosy or takes(task, standing.levels, seed=seed, cursor=cursor):
                found.setdefault(task.hash, task)
    if len(found) < count:
        raise UsageError(
            f"--tasks-per-step {count}: the environment has only {len(found)} different tasks. "
            "Tasks of a step are distinct. Lower it."
        )
    return list(found.values())


def _position(size: int, cursor: int, seed: int) -> int:
    return int(_order(size, seed, cursor // size)[cursor % size])


@lru_cache(maxsize=1)
def _order(size: int, seed: int, epoch: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, ORDER_STREAM, epoch]).permutation(size)
