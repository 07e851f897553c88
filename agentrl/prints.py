"""What an author's code prints, up to a bound.

In    the streams of a process; blocks of code whose prints are to be bounded
Out   the first characters of each block's prints, then a notice; everything else as it was
Not   what goes past `sys.stdout`: C code, child processes, threads that author code started
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, TextIO, cast

MOST = 10_000
"""Characters that one call of an author's function may print."""
NOTICE = "\n[... it printed more ...]\n"


@dataclass(slots=True)
class _Room:
    left: int


_room: ContextVar[_Room | None] = ContextVar("agentrl_prints", default=None)


class BoundedStream:
    """A text stream that takes no more than it should from a `bounded` block."""

    def __init__(self, stream: TextIO) -> None:
        """Everything but `write` is the stream's own."""
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the part that there is room for; the length of all of it, as if it had been."""
        room = _room.get()
        if room is None:
            return self._stream.write(text)
        if room.left > 0:
            self._stream.write(text[: room.left])
            room.left -= len(text)
            if room.left <= 0:
                self._stream.write(NOTICE)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def bounded(most: int = MOST) -> AbstractContextManager[None]:
    """Bound what this block prints, and the tasks and threads that share its context."""
    return _Bounded(_Room(most))


@dataclass(slots=True)
class _Bounded(AbstractContextManager[None]):
    """Not a generator: every call of author code passes through one."""

    room: _Room
    before: Token[_Room | None] | None = None

    def __enter__(self) -> None:
        self.before = _room.set(self.room)

    def __exit__(self, *error: object) -> None:
        assert self.before is not None
        _room.reset(self.before)


def bound_streams() -> None:
    """Make the standard streams of this process heed `bounded`: for whoever owns the process."""
    sys.stdout = cast(TextIO, BoundedStream(sys.stdout))
    sys.stderr = cast(TextIO, BoundedStream(sys.stderr))
