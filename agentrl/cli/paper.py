"""Standard output as a sheet: how many columns, and whether it takes colours.

In    this process's standard output
Out   columns; what rich draws, as text with colours where a terminal shows them
Not   progress of a run (screen/)
"""

from __future__ import annotations

import os
import sys
from typing import Any

WIDEST = 100
"""Columns where nobody says, and at most where lines are read."""
NARROWEST = 60


def columns(most: int = WIDEST) -> int:
    """Columns of the terminal, within bounds; as many as may be where there is none."""
    if not is_terminal():
        return most
    try:
        found = os.get_terminal_size(sys.stdout.fileno()).columns
    except OSError:
        found = 0
    return max(NARROWEST, min(most, found or 80))


def is_terminal() -> bool:
    """Whether a person looks at it as it is written."""
    return sys.stdout.isatty()


def drawn(what: Any, width: int) -> str:
    """What rich makes of something, without the last line's end and spaces at ends of lines."""
    # Here, not above: numbers that are asked for as JSON need no drawing.
    from rich.console import Console

    console = Console(file=sys.stdout, width=width, highlight=False, legacy_windows=False)
    with console.capture() as written:
        console.print(what)
    return "\n".join(line.rstrip() for line in written.get().rstrip("\n").split("\n"))
