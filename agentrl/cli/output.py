"""Where a command's words go.

In    text for people, one document for programs
Out   standard output; with --json only the document there, all else on standard error
Not   progress of a run (console.py), nor errors (entry.py)
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unicodedata import category

from agentrl import disk

_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(slots=True)
class Output:
    """What a command says."""

    as_json: bool
    document: Any = None
    """What is printed as JSON at the end, where that was asked for."""

    def say(self, text: str) -> None:
        """Write a line for a person, where a person reads; what would steer a terminal is shown."""
        if not self.as_json:
            sys.stdout.write(f"{visible(text)}\n")


def visible(text: str) -> str:
    """Somebody's text, in which what would command a terminal is written out."""
    return "".join(_written(c) if c in _BIDI or category(c) in ("Cc", "Cs") else c for c in text)


def _written(character: str) -> str:
    return character if character in "\n\t" else ascii(character)[1:-1]


@contextmanager
def output(as_json: bool) -> Iterator[Output]:
    """A command's output; as JSON, nothing else reaches standard output.

    Libraries and environments may print from C or from child processes, so the file
    descriptor is turned over too, not only Python's own stream.
    """
    out = Output(as_json)
    if not as_json:
        yield out
        return
    sys.stdout.flush()
    before = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield out
    finally:
        sys.stderr.flush()
        os.dup2(before, 1)
        os.close(before)
    if out.document is None:  # a process that only helped another
        return
    text = json.dumps(disk.plain(out.document), indent=2, ensure_ascii=False)
    # Half a surrogate pair, as of a file's name that is not UTF-8, is written as JSON writes it.
    sys.stdout.write(f"{text.encode('utf-8', 'backslashreplace').decode()}\n")
