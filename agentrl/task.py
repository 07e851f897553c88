"""Task and where tasks come from.

In    prompts and answers: a list, a JSONL file, or a function of a random generator
Out   TaskSource: sized, indexable; every task has a content hash and a split
Not   state: the same index gives the same task, whatever was asked before
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from agentrl.errors import EnvironmentFault, UsageError
from agentrl.message import Message

SPLITS = ("train", "test")
LABELS = {"env": "from_env", "difficulty": "difficulty", "tags": "tags"}
"""What records tell of a task beside its name, and the key of its meta that holds it; the first
is filled in where several environments are played."""
TEST_SHARE = 10
"""One task in this many belongs to the test split."""


@dataclass(frozen=True)
class Task:
    """One problem: what the policy is asked, and what the reward may look at."""

    prompt: str | tuple[Message, ...]
    """The user's words, or a whole opening conversation."""
    answer: Any = None
    """Gold answer; the policy never sees it."""
    id: str = field(default="", kw_only=True)
    """A name for people; the content hash where none is given."""
    meta: Mapping[str, Any] | None = field(default=None, kw_only=True)
    reference: tuple[str, ...] | None = field(default=None, kw_only=True)
    """Assistant texts of a correct solution, calls as Hermes JSON; `envs check` plays them."""

    def __post_init__(self) -> None:
        """Fill in the id and freeze what came as lists."""
        if not isinstance(self.prompt, str):
            object.__setattr__(self, "prompt", _messages(self.prompt))
        if isinstance(self.reference, str):
            raise UsageError(
                f"Task: its reference is one text ({self.reference[:40]!r}). "
                "Give a tuple of them, one for each turn of the assistant."
            )
        if self.reference is not None:
            object.__setattr__(self, "reference", tuple(self.reference))
        if not self.id:
            object.__setattr__(self, "id", self.hash)

    @cached_property
    def hash(self) -> str:
        """Sha256 of the canonical JSON of prompt and answer: the task's identity."""
        content = {"answer": self.answer, "prompt": self.prompt}
        try:
            text = _canonical(content)
            return hashlib.sha256(text.encode()).hexdigest()
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"Task: its prompt and answer have no canonical JSON ({error}). The content is "
                "a task's identity. Use text, numbers, lists and tables with text keys."
            ) from error

    @property
    def split(self) -> str:
        """The split this content belongs to: one task in ten is test."""
        return "test" if int(self.hash[:8], 16) % TEST_SHARE == 0 else "train"

    def opening(self) -> list[Message]:
        """The prompt as chat messages."""
        if isinstance(self.prompt, str):
            return [Message(role="user", content=self.prompt)]
        return list(self.prompt)


class TaskSource(Protocol):
    """Tasks by position: `len(source)` and `source[i]`."""

    def __len__(self) -> int:
        """How many tasks there are."""
        ...

    def __getitem__(self, index: int, /) -> Task:
        """The task at a position; IndexError outside."""
        ...


class ListTasks:
    """Tasks held in memory; with a split, only those whose content belongs to it."""

    def __init__(self, tasks: Sequence[Task], *, split: str | None = None) -> None:
        """Keep the tasks, or those of one split."""
        self._tasks = [t for t in tasks if split is None or t.split == split]

    def __len__(self) -> int:
        """How many tasks there are."""
        return len(self._tasks)

    def __getitem__(self, index: int) -> Task:
        """The task at a position."""
        return self._tasks[index]


class JsonlTasks(ListTasks):
    """Tasks from a file of JSON lines with `prompt` and, optionally, the other fields of Task."""

    def __init__(self, path: str | Path, *, split: str | None = None) -> None:
        """Read the whole file; a bad line is refused with its number."""
        super().__init__(_read_lines(Path(path)), split=split)


class ProceduralTasks:
    """Tasks made on demand from a function of a random generator.

    Task i depends on (seed, split, i) alone. With a split, candidates whose content
    belongs to the other split are passed over, so splits are disjoint by content.
    """

    def __init__(
        self,
        fn: Callable[[np.random.Generator], Task],
        size: int,
        seed: int,
        *,
        split: str | None = None,
    ) -> None:
        """Remember how to make `size` tasks."""
        self._fn, self._size, self._seed, self._split = fn, size, seed, split

    def __len__(self) -> int:
        """How many tasks there are."""
        return self._size

    def __getitem__(self, index: int) -> Task:
        """Make the task at a position."""
        if not -self._size <= index < self._size:
            raise IndexError(index)
        rng = np.random.default_rng([self._seed, index % self._size])
        for _ in range(100 * TEST_SHARE):
            task = self._fn(rng)
            if self._split is None or task.split == self._split:
                return task
        raise EnvironmentFault(
            f"task {index}: no task of split {self._split!r} in {100 * TEST_SHARE} tries. "
            "The generator makes too few different tasks. Widen it, or use ListTasks."
        )


def _messages(prompt: Any) -> tuple[Message, ...]:
    if isinstance(prompt, Sequence) and prompt and all(map(_is_message, prompt)):
        return tuple(prompt)
    raise UsageError(
        f"Task: its prompt is {repr(prompt)[:80]}. "
        "Give text, or a list of messages with a role and content, both text."
    )


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(value.get(key), str) for key in ("role", "content")
    )


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """What JSON does not know, the same in every process."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=_canonical)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    text = str(value)
    if re.search(r" at 0x[0-9a-f]+", text):
        raise TypeError(f"{text[:80]} is another one in every process")
    return text


def _read_lines(path: Path) -> list[Task]:
    try:
        # Not splitlines: what a JSON string may hold unescaped, such as U+2028, ends no line.
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read. {error.strerror}. Give another file.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start}). Save it so.") from error
    return [_task(path, i, line) for i, line in enumerate(lines, 1) if line.strip()]


def _task(path: Path, number: int, line: str) -> Task:
    try:
        row = json.loads(line)
        return Task(row.pop("prompt"), row.pop("answer", None), **row)
    except (ValueError, KeyError, TypeError, AttributeError, UsageError) as error:
        raise UsageError(
            f"{path}:{number}: not a task ({error}). Write a JSON object with "
            "`prompt` and optionally answer, id, meta, reference."
        ) from error
