"""Lines that a person types, or that a file holds.

In    standard input; a prompt and words to complete where it is a terminal
Out   texts: a line, or several up to a full stop alone
Not   what they mean
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

END = "."
"""Alone on a line, it ends a text of several lines."""
QUIT = "/quit"
MORE = "... "


def texts(
    prompt: Callable[[], str], words: Callable[[], Sequence[str]], several: bool
) -> Iterator[str]:
    """What is typed, until /quit or the end of the input.

    Args:
        prompt: Shown before each text, on a terminal alone.
        words: What the tab key completes to.
        several: Whether a text ends with a full stop alone; commands end with their line.
    """
    if sys.stdin.isatty():
        _complete(words)
    held: list[str] = []
    while True:
        line = _line(MORE if held else prompt)
        if line is None or (line.strip() == QUIT and not held):
            return
        if not several or (line.startswith("/") and not held):
            if line.strip() or not sys.stdin.isatty():
                yield line
        elif line == END:
            yield "\n".join(held)
            held = []
        else:
            held.append(line)


def _line(prompt: str | Callable[[], str]) -> str | None:
    """One line without its end; None at the end of the input."""
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        return line.rstrip("\n") if line else None
    try:
        return input(prompt if isinstance(prompt, str) else prompt())
    except EOFError:
        sys.stdout.write("\n")
        return None


def _complete(words: Callable[[], Sequence[str]]) -> None:
    """Let the tab key complete, and the arrow keys bring lines back, where Python can."""
    try:
        import readline
    except ImportError:
        return

    def complete(text: str, state: int) -> str | None:
        found = [word for word in words() if word.startswith(text)]
        return found[state] if state < len(found) else None

    readline.set_completer_delims(" ")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
