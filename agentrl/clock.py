"""Clock: the seconds of a run, by phase and in total.

In    seconds that a resumed run has spent already, a source of time
Out   the same mapping, counted on
Not   a sum: phases that go on side by side are counted in full, each
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

Tell = Callable[[str, bool], None]
"""A phase begins, or ends."""


def _nobody(name: str, going: bool) -> None:
    pass


@dataclass(slots=True)
class Clock:
    """Seconds by phase and in total; time comes in through the door."""

    spent: dict[str, float]
    """Goes on counting where a resumed run left off."""
    now: Callable[[], float] = time.monotonic
    marked: float = 0.0
    tell: Tell = _nobody

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the seconds of a block under a name."""
        start = self.now()
        self.tell(name, True)
        try:
            yield
        finally:
            self.tell(name, False)
            self.spent[name] = self.spent.get(name, 0.0) + self.now() - start

    def mark(self) -> None:
        """Add the seconds since the last mark to the total."""
        now = self.now()
        self.spent["total"] = self.spent.get("total", 0.0) + now - self.marked
        self.marked = now
