"""What adapters share: classes made at run time, options checked, tasks that are seeds.

In    a base class and what distinguishes one environment of the other package from the next
Out   classes, tasks
Not   knowledge of any package
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from agentrl.env import ToolEnv
from agentrl.errors import UsageError, suggestion
from agentrl.task import SPLITS, ProceduralTasks, Task, TaskSource

E = TypeVar("E", bound=ToolEnv)

SIZES = {"train": 100_000, "test": 2_000}
LARGEST_SEED = 2**31 - 1


def named(base: type[E], text: str, **attributes: Any) -> type[E]:
    """A subclass for one environment of the other side, called as behind `--env`."""
    about = {"__doc__": base.__doc__, "__module__": base.__module__}
    return type(text, (base,), {**about, **attributes})


def refuse_unknown(text: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """UsageError for an option that the other side does not have."""
    names = sorted(set(known))
    for key in given:
        if key not in names:
            listed = f"Its options: {', '.join(names)}." if names else "It has none."
            raise UsageError(
                f"--env.{key}: {text} has no such option. {suggestion(key, names, listed)}"
            )


def seeds(prompt: str, split: str, tags: Iterable[str] = ()) -> TaskSource:
    """Tasks that differ in a seed alone, which is their answer: the policy never sees it."""
    if split not in SPLITS:
        raise UsageError(f"tasks: {split!r} is no split. There are {' and '.join(SPLITS)}.")
    meta = {"tags": list(tags)}

    def task(rng: Any) -> Task:
        return Task(prompt, {"seed": int(rng.integers(LARGEST_SEED))}, meta=meta)

    return ProceduralTasks(task, SIZES[split], 0, split=split)
