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

from agentrl import disk
from agentrl.glyphs import is_rich, spelled
from agentrl.visible import visible


@dataclass(slots=True)
class Output:
    """What a command says."""

    as_json: bool
    document: Any = None
    """What is printed as JSON at the end, where that was asked for."""

    def say(self, text: str) -> None:
        """Write a line for a person, where a person reads; what would steer a terminal is shown."""
        if not self.as_json:
            self.draw(visible(text))

    def draw(self, text: str) -> None:
        """Write lines in colours: what was put into them cannot steer a terminal any more."""
        if not self.as_json:
            encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
            sys.stdout.write(f"{spelled(text, is_rich(encoding))}\n")


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
