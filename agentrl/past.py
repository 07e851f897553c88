"""What a run remembers of tasks whose last groups were flat, and when it meets them again.

In    how a task's group ended: flat or not, what it earned and cost
Out   Past by task hash, in bounded memory; the chance that a skipped task is played all the same
Not   tasks with contrast: nothing is remembered of those, they are played

Age is counted in meetings, not in steps: how often the drawing has come to the task and passed it
over since it was played. So the chance does not depend on how many other tasks there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

MOST = 20_000
"""Tasks that are remembered; of more, those that were played longest ago are forgotten."""
STREAM = 17
"""Keeps these draws apart from every other use of the run's seed."""


class Past(NamedTuple):
    """One task's last groups, all flat."""

    flat: int
    """Groups in a row."""
    passed: int
    """Times it was met and passed over since."""
    reward: float
    """Mean of its last group."""
    tokens: float
    """Sampled by an episode of its last group, on average."""


Pasts = Mapping[str, Sequence[float]]
"""Task hash to the numbers of Past, as JSON has them; the last one played comes last."""


def past_of(pasts: Pasts, task: str) -> Past | None:
    """What is remembered of a task."""
    found = pasts.get(task)
    return None if found is None else Past(int(found[0]), int(found[1]), found[2], found[3])


def chance(past: Past, audit: float) -> float:
    """Chance that a skipped task is played: `audit`, and as much more each time it was passed."""
    return min(1.0, audit * (past.passed + 1))


def returns(past: Past, audit: float, *, seed: int, cursor: int) -> bool:
    """Whether a task met at a place of the run comes back; depends on its arguments alone."""
    drawn = np.random.default_rng([seed, STREAM, cursor]).random()
    return bool(drawn < chance(past, audit))


def passing(pasts: Pasts, tasks: Sequence[str]) -> dict[str, Sequence[float]]:
    """The memory after some tasks were passed over."""
    found = dict(pasts)
    for task in tasks:
        past = past_of(found, task)
        if past is not None:
            found[task] = past._replace(passed=past.passed + 1)
    return found


def ended(
    pasts: Pasts, task: str, *, flat: bool, reward: float, tokens: float
) -> dict[str, Sequence[float]]:
    """The memory after a task's group; with contrast, the task is forgotten."""
    found = dict(pasts)
    before = past_of(found, task)
    found.pop(task, None)
    if flat:
        found[task] = Past(1 + (before.flat if before else 0), 0, reward, tokens)
    return dict(islice(found.items(), max(0, len(found) - MOST), None))
