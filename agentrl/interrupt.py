"""Ctrl-C, once: finish the step, save, stop. Twice: stop now.

In    SIGINT and SIGTERM of the process
Out   Interrupt, whose `asked` the loop looks at between steps
Not   a handler outside the main thread: there signals are left to the caller

A launcher passes a Ctrl-C on to processes that the terminal has told already: what comes within
a second of the first counts as the same.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

SAME = 1.0
"""Seconds within which signals are one request."""


@dataclass(slots=True)
class Interrupt:
    """Whether someone asked the run to stop."""

    asked: bool = False
    now: Callable[[], float] = time.monotonic
    first: float = 0.0

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Remember the first request; the second one stops at once."""
        if not self.asked:
            self.asked, self.first = True, self.now()
        elif self.now() - self.first > SAME:
            raise KeyboardInterrupt


@contextmanager
def listening() -> Iterator[Interrupt]:
    """Take over the stop signals for a block, and give them back after it."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = {s: signal.signal(s, interrupt.ask) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def deaf() -> Iterator[None]:
    """Leave stopping to another process, which ends this one when it is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {s: signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
