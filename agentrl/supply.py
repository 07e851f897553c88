"""The tasks of an environment, as far as a run may trust them.

In    an environment, a split, and the content that must not turn up in it
Out   a TaskSource; where the author's code breaks or gives something else, UsageError
Not   which task is played when (state.py), nor a look at every task of a large source
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault, UsageError, blame
from agentrl.task import Task, TaskSource

T = TypeVar("T")

LOOK = 1000
"""Tasks that are looked at before a run; each is looked at again when it is drawn."""


@dataclass(frozen=True, slots=True)
class Supply:
    """A source whose every task is known to be one, and none a held-out one."""

    name: str
    """The environment, as the user wrote it."""
    split: str
    source: TaskSource
    held_out: frozenset[str] = frozenset()
    """Hashes of tasks that are kept for measuring."""

    def __len__(self) -> int:
        """How many tasks there are."""
        return len(self.source)

    def __getitem__(self, index: int) -> Task:
        """The task at a position."""
        with blame(UsageError, f"--env {self.name}: {self.split} task {index}"):
            task = _given(lambda: self.source[index], self.name)
        if not isinstance(task, Task):
            raise UsageError(
                f"--env {self.name}: {self.split} task {index} is a {type(task).__name__}. "
                "Give agentrl.Task(prompt, answer)."
            )
        if task.hash in self.held_out:
            raise UsageError(
                f"--env {self.name}: {self.split} task {index} is among the held-out tasks too. "
                "What was trained on would be measured. Pass split= on to the task source."
            )
        return task


def supply(env: ToolEnv, split: str, name: str, held_out: Sequence[Task] = ()) -> Supply:
    """The tasks of a split, looked at.

    Raises:
        UsageError: they cannot be had, are no tasks, or are held out.
    """
    with blame(UsageError, f"--env {name}: its {split} tasks"):
        source = _given(lambda: env.task_source(split), name)
    if not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
        raise UsageError(
            f"--env {name}: tasks({split!r}) returned a {type(source).__name__}. "
            "Return agentrl.ListTasks, JsonlTasks, ProceduralTasks, or a list."
        )
    found = Supply(name, split, source, frozenset(task.hash for task in held_out))
    if held_out:
        for index in range(min(LOOK, len(found))):
            found[index]
    return found


def _given(ask: Callable[[], T], name: str) -> T:
    """What the author's code gives; its faults are the user's to mend before a run."""
    try:
        return ask()
    except EnvironmentFault as fault:
        raise UsageError(f"--env {name}: {fault}") from fault
