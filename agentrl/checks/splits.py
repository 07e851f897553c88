"""Checks of tasks: there are some in both splits, always the same, and no content in both.

In    a Bench
Out   Problems
Not   a look at all tasks of a large source: how many were looked at is said
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from agentrl.checks.bench import Bench
from agentrl.checks.report import Problem
from agentrl.errors import EnvironmentFault, blame
from agentrl.task import SPLITS, Task, TaskSource

LOOK = 1000
"""Tasks of a split that are looked at."""
PATIENCE = 5.0
"""Seconds after which fewer do."""
_WRITERS = ("task_source", "tasks")


def tasks(bench: Bench) -> Iterator[Problem]:
    """Both splits have tasks, and a position always has the same one."""
    where = bench.subject.line(*_WRITERS)
    again = bench.subject.make()
    for split, picked in bench.picked.items():
        if not picked:
            yield Problem(where, f"the split {split} has no tasks.", "Return some for both splits.")
            continue
        source = again.task_source(split)
        for i, task in enumerate(picked):
            index = i * len(source) // len(picked)
            if not isinstance(task, Task):
                yield Problem(
                    where,
                    f"{split} task {index} is a {type(task).__name__}.",
                    "Give agentrl.Task(prompt, answer).",
                )
            elif any(task.hash != source[index].hash for _ in range(2)):
                yield Problem(
                    where,
                    f"{split} task {index} is another one when it is asked for again.",
                    "Make it from its position alone, with a generator of its own: "
                    "agentrl.ProceduralTasks does.",
                )
            else:
                continue
            break


def splits(bench: Bench) -> Iterator[Problem]:
    """No content is in both splits."""
    seen: dict[str, dict[str, int]] = {}
    for split in SPLITS:
        with blame(EnvironmentFault, f"{bench.subject.kind.__name__}.tasks"):
            source = bench.env.task_source(split)
            seen[split] = _hashes(source)
            bench.notes.append(f"{len(seen[split])} of {len(source)} {split} tasks looked at")
    both = [h for h in seen["test"] if h in seen["train"]]
    if both:
        yield Problem(
            bench.subject.line(*_WRITERS),
            f"test task {seen['test'][both[0]]} is train task {seen['train'][both[0]]}, and "
            f"{len(both)} in all are in both splits. What was trained on would be measured.",
            "Pass split= on to ListTasks, JsonlTasks or ProceduralTasks: they divide by content.",
        )


def _hashes(source: TaskSource) -> dict[str, int]:
    """Content to position, spread evenly over the source."""
    size, count = len(source), min(LOOK, len(source))
    found: dict[str, int] = {}
    until = time.monotonic() + PATIENCE
    for i in range(count):
        index = i * size // count
        found.setdefault(source[index].hash, index)
        if time.monotonic() > until:
            break
    return found
