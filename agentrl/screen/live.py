"""A listener that keeps a panel on a terminal while a run goes on.

In    events, from any thread; a terminal, a clock
Out   frames, four a second; each new warning once, above the panel
Not   what a frame holds (frame.py), nor the terminal's care (terminal.py)
"""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from agentrl.events import Event, Listener
from agentrl.glyphs import is_rich, spelled
from agentrl.prints import hidden, overheard
from agentrl.screen.frame import frame
from agentrl.screen.state import Screen, seen
from agentrl.screen.terminal import alone, painted, paused
from agentrl.visible import visible

PERIOD = 0.25
"""Seconds between frames."""
SMALLEST = (40, 8)
"""Columns and rows that are reckoned with at least."""


@contextmanager
def live(stream: TextIO, now: Callable[[], float] = time.monotonic) -> Iterator[Listener]:
    """Show a run on a stream that is a terminal, for a block."""
    panel = Panel(now, rich=is_rich(stream.encoding))
    with (
        hidden("everything", panel.hear),
        alone(stream, overheard) as terminal,
        paused(terminal, panel.begin_anew),
        panel.shown_on(terminal),
    ):
        yield panel


class Panel:
    """What is known, and what stands on the terminal."""

    def __init__(self, now: Callable[[], float], *, rich: bool) -> None:
        """Nothing is known, and nothing stands there."""
        self.screen = Screen(now())
        self._now = now
        self._rich = rich
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._before: Sequence[int] = ()
        self._console = Console(
            file=io.StringIO(), force_terminal=True, legacy_windows=False, highlight=False
        )

    def __call__(self, event: Event) -> None:
        """Remember an event; the next frame shows it."""
        with self._lock:
            self.screen = seen(self.screen, event, self._now())

    def hear(self, text: str) -> None:
        """Count the lines of what was kept off the terminal."""
        with self._lock:
            self.screen = replace(self.screen, aside=self.screen.aside + text.count("\n"))

    def begin_anew(self) -> None:
        """Draw the next frame where the cursor is: what stood there has gone."""
        self._before = ()

    @contextmanager
    def shown_on(self, terminal: TextIO) -> Iterator[None]:
        """Draw on a terminal until the block ends; the last frame stays."""
        self._draw(terminal)
        painter = threading.Thread(target=self._paint, args=(terminal,), daemon=True)
        painter.start()
        try:
            yield
        finally:
            self._over.set()
            painter.join()
            with self._lock:
                self.screen = replace(self.screen, over=True)
            self._draw(terminal)

    def _paint(self, terminal: TextIO) -> None:
        while not self._over.wait(PERIOD):
            self._draw(terminal)

    def _draw(self, terminal: TextIO) -> None:
        columns, rows = size_of(terminal)
        with self._lock:
            screen, self.screen = self.screen, replace(self.screen, fresh=())
        drawn = frame(screen, self._now(), columns, rich=self._rich)
        # A run that never began leaves nothing: what comes next says why.
        gone = screen.over and screen.about is None
        lines = [] if gone else self._lines(drawn, columns)[: rows - 1]
        above = [line for text in screen.fresh for line in self._warning(text, columns)]
        terminal.write(painted(lines, self._before, columns, above))
        terminal.flush()
        self._before = [Text.from_ansi(line).cell_len for line in lines]

    def _warning(self, text: str, columns: int) -> list[str]:
        words = spelled(visible(f"warning: {text}"), self._rich)
        return self._lines(Text(words, style="yellow"), columns)

    def _lines(self, what: RenderableType, columns: int) -> list[str]:
        """Lines as a terminal takes them, with as much colour as it has."""
        self._console.width = columns
        with self._console.capture() as written:
            self._console.print(what)
        return written.get().removesuffix("\n").split("\n")


def size_of(terminal: TextIO) -> tuple[int, int]:
    """Columns and rows, also of a terminal that does not say."""
    try:
        columns, rows = os.get_terminal_size(terminal.fileno())
    except OSError:
        columns, rows = 0, 0
    return max(SMALLEST[0], columns or 80), max(SMALLEST[1], rows or 24)
