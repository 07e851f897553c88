"""What an author's code prints, up to a bound.

In    the streams of a process; blocks of code whose prints are to be bounded
Out   the first characters of each block's prints, then a notice, and nothing that would steer a
      terminal; everything else as it was
Not   what goes past `sys.stdout`: C code, child processes, threads that author code started
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TextIO, cast

from agentrl.visible import visible

MOST = 10_000
"""Characters that one call of an author's function may print."""
Copy = Callable[[str], None]
NOTICE = "\n[... it printed more ...]\n"


@dataclass(slots=True)
class _Room:
    left: int


Hides = Literal["nothing", "authors", "everything"]
"""What author code prints, or whatever is written."""
_room: ContextVar[_Room | None] = ContextVar("agentrl_prints", default=None)


class BoundedStream:
    """A text stream that takes no more than it should from a `bounded` block."""

    def __init__(self, stream: TextIO) -> None:
        """Everything but `write` is the stream's own."""
        self._stream = stream
        self.copies: list[Copy] = []
        self.watchers: list[Copy] = []
        """Told of what is hidden."""
        self.copies_all = False
        """Whether also what is written outside a `bounded` block is copied."""
        self.hides: Hides = "nothing"
        """What goes to the copies alone."""
        self._kept: list[str] = []
        self._space = MOST

    def write(self, text: str) -> int:
        """Write the part that there is room for; the length of all of it, as if it had been."""
        room = _room.get()
        shown = text if room is None else visible(_fitting(room, text))
        hidden = self.hides == "everything" or (self.hides == "authors" and room is not None)
        if not hidden and shown:
            self._stream.write(shown)
        if hidden and shown:
            self.hear(shown)
        elif shown and (room is not None or self.copies_all):
            self._copy(shown)
        return len(text)

    def hear(self, text: str) -> None:
        """Take what is not to be seen: for the copies, or for later where there is none."""
        for watch in self.watchers:
            watch(text)
        self._copy(text)
        if not self.copies and self._space > 0:
            self._kept.append(text[: self._space] + NOTICE * (len(text) > self._space))
            self._space -= len(text)

    def _copy(self, text: str) -> None:
        for copy in self.copies:
            copy(text)

    def kept(self) -> str:
        """What was hidden while there was no copy, once."""
        text, self._kept, self._space = "".join(self._kept), [], MOST
        return text

    def writelines(self, lines: list[str]) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _fitting(room: _Room, text: str) -> str:
    """What of a text there is room for, with a notice where that ends."""
    if room.left <= 0:
        return ""
    shown = text[: room.left]
    room.left -= len(text)
    return shown + NOTICE if room.left <= 0 else shown


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


@contextmanager
def copied(copy: Copy) -> Iterator[None]:
    """Pass on, for a block, what is written to bound streams.

    Of standard output that is what author code prints, of standard error all. Streams that
    are not bound are left alone.
    """
    streams = _bound()
    if isinstance(sys.stderr, BoundedStream):
        sys.stderr.copies_all = True
    for stream in streams:
        stream.copies.append(copy)
        if text := stream.kept():
            copy(text)
    try:
        yield
    finally:
        for stream in streams:
            stream.copies.remove(copy)


@contextmanager
def hidden(what: Hides = "authors", tell: Copy | None = None) -> Iterator[None]:
    """Keep off the streams, for a block, what author code prints, or everything.

    Copies get it. What there was no copy for comes out at the end, up to a bound.

    Args:
        what: What is hidden of a terminal; of a file only what author code prints.
        tell: Given each text that is hidden.
    """
    with _all_bound() as streams:
        for stream in streams:
            stream.hides = what if stream.isatty() else "authors"
        watching = () if tell is None else (tell,)
        for stream, watch in product(streams, watching):
            stream.watchers.append(watch)
        try:
            yield
        finally:
            for stream in streams:
                stream.hides = "nothing"
            for stream, watch in product(streams, watching):
                stream.watchers.remove(watch)
            for stream in streams:
                if text := stream.kept():
                    stream.write(visible(text))


def overheard(text: str) -> None:
    """Something was said past the streams: copy it as if it had gone to standard error."""
    if isinstance(sys.stderr, BoundedStream):
        sys.stderr.hear(text)


@contextmanager
def _all_bound() -> Iterator[list[BoundedStream]]:
    """The standard streams, which heed `bounded` at least as long as the block lasts."""
    before = sys.stdout, sys.stderr
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, BoundedStream):
            setattr(sys, name, BoundedStream(stream))
    try:
        yield _bound()
    finally:
        sys.stdout, sys.stderr = before


def _bound() -> list[BoundedStream]:
    """Standard streams that heed `bounded`, each once: one may stand for both."""
    found = {id(s): s for s in (sys.stdout, sys.stderr) if isinstance(s, BoundedStream)}
    return list(found.values())


def bound_streams() -> None:
    """Make the standard streams of this process heed `bounded`: for whoever owns the process."""
    sys.stdout = cast(TextIO, BoundedStream(sys.stdout))
    sys.stderr = cast(TextIO, BoundedStream(sys.stderr))
