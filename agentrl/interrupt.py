"""Ctrl-C, once: finish the step, save, stop. Twice: stop now.

In    SIGINT and SIGTERM of the process
Out   Interrupt, whose `asked` the loop looks at between steps; a word to whoever shows the run
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
from dataclasses import dataclass, field
from queue import SimpleQueue
from types import FrameType

ONCE = "Ctrl-C finishes this step, saves and stops"
AGAIN = "stopping after this step, then saving · Ctrl-C again stops now, without it"
SAME = 1.0
"""Seconds within which signals are one request."""


@dataclass(slots=True)
class Interrupt:
    """Whether someone asked the run to stop."""

    asked: bool = False
    now: Callable[[], float] = time.monotonic
    first: float = 0.0
    news: SimpleQueue[bool] = field(default_factory=SimpleQueue)
    """True when the run is asked to stop. A handler may come between any two instructions, where
    it must take no lock: this queue takes none."""

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Remember the first request; the second one stops at once."""
        if not self.asked:
            self.asked, self.first = True, self.now()
            self.news.put(True)
        elif self.now() - self.first > SAME:
            raise KeyboardInterrupt


@contextmanager
def listening(tell: Callable[[], None] | None = None) -> Iterator[Interrupt]:
    """Take over the stop signals for a block, and give them back after it.

    Args:
        tell: Called once, on a thread of its own, as soon as the run is asked to stop.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = {s: signal.signal(s, interrupt.ask) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        with _telling(interrupt, tell):
            yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _telling(interrupt: Interrupt, tell: Callable[[], None] | None) -> Iterator[None]:
    if tell is None:
        yield
        return

    def wait() -> None:
        if interrupt.news.get():
            tell()

    thread = threading.Thread(target=wait, name="agentrl-interrupt", daemon=True)
    thread.start()
    try:
        yield
    finally:
        interrupt.news.put(False)
        thread.join()


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
