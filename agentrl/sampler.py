"""Which tasks a step plays.

In    a task source, where the run stands, the run's seed
Out   Drawn: different tasks, and which others were met and skipped; moves the run's cursor
Not   an order that depends on what was played: tasks come as without skipping, some passed over

A task is skipped where its last groups were all flat. By a lot it is played all the same, and
the chance of that is noted: such tasks show what skipping loses (leftout.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from agentrl.curriculum import takes
from agentrl.errors import UsageError
from agentrl.past import Past, chance, passing, past_of, returns
from agentrl.state import Standing
from agentrl.task import Task, TaskSource

ORDER_STREAM = 11
"""Keeps the order of tasks apart from every other use of the run's seed."""


@dataclass(frozen=True, slots=True)
class Taste:
    """What the drawing passes over, as long as enough else is left."""

    curriculum: bool = False
    skip_flat: int = 0
    """Flat groups in a row after which a task is skipped; 0: never."""
    audit: float = 0.1
    """Chance of a skipped task when it is first met again."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The tasks of a step."""

    tasks: Sequence[Task]
    skipped: Mapping[str, Past] = field(default_factory=dict)
    """Hashes of tasks that were met and left out, with what they earned last."""
    returned: Mapping[str, tuple[Past, float]] = field(default_factory=dict)
    """Hashes of tasks that came back by a lot, with its chance."""


def draw(
    source: TaskSource, standing: Standing, *, seed: int, count: int, taste: Taste = Taste()
) -> Drawn:
    """The next tasks of the run, all different in content; moves the cursor.

    Every epoch is a new permutation of the source, drawn from the seed and the epoch. What is
    not to the taste is passed over, as long as enough other tasks are left.

    Raises:
        UsageError: the source has too few different tasks for one step.
    """
    if not len(source):
        raise UsageError("--env: it has no tasks of the split train. There is nothing to learn on.")
    look = _Look(standing, seed, taste)
    for choosy in (True, False) if taste.curriculum or taste.skip_flat else (False,):
        for _ in range(2 * len(source) + count):
            if len(look.found) == count:
                break
            cursor = standing.cursor
            task = source[_position(len(source), cursor, seed)]
            standing.cursor += 1
            if task.hash not in look.found and (not choosy or look.wants(task, cursor)):
                look.found[task.hash] = task
    if len(look.found) < count:
        raise UsageError(
            f"--tasks-per-step {count}: the environment has only {len(look.found)} different "
            "tasks. Tasks of a step are distinct. Lower it."
        )
    skipped = {key: past for key, past in look.skipped.items() if key not in look.found}
    standing.pasts = passing(standing.pasts, list(skipped))
    return Drawn(tuple(look.found.values()), skipped, look.returned)


@dataclass(slots=True)
class _Look:
    """One step's look at the tasks that come along."""

    standing: Standing
    seed: int
    taste: Taste
    found: dict[str, Task] = field(default_factory=dict)
    skipped: dict[str, Past] = field(default_factory=dict)
    returned: dict[str, tuple[Past, float]] = field(default_factory=dict)

    def wants(self, task: Task, cursor: int) -> bool:
        """Whether a task met for the first time in this step is played."""
        taste, key = self.taste, task.hash
        if taste.curriculum and not takes(
            task, self.standing.levels, seed=self.seed, cursor=cursor
        ):
            return False
        past = past_of(self.standing.pasts, key) if taste.skip_flat else None
        if past is None or past.flat < taste.skip_flat:
            return True
        if key in self.skipped:
            return False
        if returns(past, taste.audit, seed=self.seed, cursor=cursor):
            self.returned[key] = past, chance(past, taste.audit)
            return True
        self.skipped[key] = past
        return False


def _position(size: int, cursor: int, seed: int) -> int:
    return int(_order(size, seed, cursor // size)[cursor % size])


@lru_cache(maxsize=1)
def _order(size: int, seed: int, epoch: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, ORDER_STREAM, epoch]).permutation(size)
