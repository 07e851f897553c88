"""The terminal while a panel is on it: whose it is, how a frame replaces the one before.

In    a stream that is a terminal; lines to show
Out   the terminal for the panel alone, and as it was at the end, however that comes
Not   what a frame holds (frame.py)

Whatever else writes to the terminal meanwhile (C code, child processes, prints) would tear the
panel. So the descriptors of standard output and error lead into a pipe, as far as they are
terminals, and what comes out of it is handed on as text.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import NoReturn, TextIO

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
_HOLD, _GO = "\x1b[?2026h", "\x1b[?2026l"
"""Around what a terminal should show at once; those that do not know them pass over them."""
_WIPE, _BELOW = "\x1b[2K", "\x1b[J"
TERMINATED = 128 + signal.SIGTERM


def painted(
    lines: Sequence[str], before: Sequence[int], columns: int, above: Sequence[str] = ()
) -> str:
    """What brings a frame to where the one before stands; the cursor ends on the row below.

    Args:
        lines: The frame, with its colours, none wider than the terminal.
        before: Columns of each line of the frame that stands there.
        columns: Of the terminal now; in a narrower one than before, lines stand on several rows.
        above: Lines that stay, and scroll away like any other output.
    """
    # A line is wiped before it is written: afterwards the last column would go in some terminals.
    up = sum(max(1, -(-width // columns)) for width in before)
    move = f"\r\x1b[{up}A" if up else "\r"
    text = "".join(f"{_WIPE}{line}\n" for line in (*above, *lines))
    return f"{_HOLD}{move}{text}{_BELOW}{_GO}"


@contextmanager
def alone(stream: TextIO, take: Callable[[str], None]) -> Iterator[TextIO]:
    """The terminal of a stream, and everything else that is written to one given to `take`."""
    with ExitStack() as held:
        held.enter_context(unwound())
        own = held.enter_context(
            open(
                os.dup(stream.fileno()),
                "w",
                encoding=stream.encoding,
                errors="backslashreplace",
                newline="",
            )
        )
        held.enter_context(_piped([fd for fd in (1, 2) if os.isatty(fd)], take))
        own.write(HIDE)
        own.flush()
        try:
            yield own
        finally:
            own.write(SHOW)
            own.flush()


@contextmanager
def paused(terminal: TextIO, again: Callable[[], None]) -> Iterator[None]:
    """Give the cursor back while the process is stopped by Ctrl-Z.

    Args:
        terminal: With a hidden cursor.
        again: Called when the process goes on: then the cursor is elsewhere.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTSTP) is not signal.SIG_DFL:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        # Not through the stream: this may come in the middle of its own write.
        os.write(terminal.fileno(), SHOW.encode())
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, stop)
        os.write(terminal.fileno(), HIDE.encode())
        again()

    signal.signal(signal.SIGTSTP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)


@contextmanager
def unwound() -> Iterator[None]:
    """Let SIGTERM end the process from inside out, where it would end it on the spot."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(TERMINATED)


@contextmanager
def _piped(descriptors: Sequence[int], take: Callable[[str], None]) -> Iterator[None]:
    """Lead descriptors of this process into `take`, and back."""
    _flush()
    source, sink = os.pipe()
    before = {fd: os.dup(fd) for fd in descriptors}
    for fd in descriptors:
        os.dup2(sink, fd)
    os.close(sink)
    reader = threading.Thread(target=_drain, args=(source, take), daemon=True)
    reader.start()
    try:
        yield
    finally:
        _flush()
        for fd, old in before.items():
            os.dup2(old, fd)
            os.close(old)
        # A child that outlives this block holds the pipe: its words are still taken, in peace.
        reader.join(timeout=1.0)


def _drain(source: int, take: Callable[[str], None]) -> None:
    with open(source, encoding="utf-8", errors="replace") as pipe:
        for line in pipe:
            take(line)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
