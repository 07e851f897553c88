"""Ctrl-C, once: finish the step, save, stop. Twice: stop now.

In    SIGINT and SIGTERM of the process
Out   Interrupt, whose `asked` the loop looks at between steps
Not   a handler outside the main thread: there signals are left to the caller
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass(slots=True)
class Interrupt:
    """Whether someone asked the run to stop."""

    asked: bool = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Remember the first request; the second one stops at once."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


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
