"""A command on a terminal of its own: what it writes, and what stands on the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyte


@dataclass
class Terminal:
    """A process behind a pseudo-terminal, and a screen that shows what it writes."""

    process: subprocess.Popen[bytes]
    master: int
    screen: pyte.Screen
    stream: pyte.ByteStream
    raw: bytes = b""
    frames: list[list[str]] = field(default_factory=list)

    def until(self, seen: Callable[[], bool], seconds: float = 60.0) -> None:
        """Read on until something is seen, or the process has ended."""
        deadline = time.monotonic() + seconds
        while not seen():
            assert time.monotonic() < deadline, self.text()
            if not self._read() and self.process.poll() is not None:
                return

    def end(self, seconds: float = 60.0) -> int:
        """Read to the end; the exit code."""
        self.until(lambda: False, seconds)
        os.close(self.master)
        return self.process.wait()

    def key(self, text: str) -> None:
        """Type."""
        os.write(self.master, text.encode())

    def send(self, number: signal.Signals) -> None:
        """A signal to the process and all that it began."""
        os.killpg(self.process.pid, number)

    def resize(self, columns: int, rows: int = 40) -> None:
        """Make the terminal another size."""
        size_to(self.master, columns, rows)
        self.screen.resize(rows, columns)

    def lines(self) -> list[str]:
        """What stands on the screen."""
        return [line.rstrip() for line in self.screen.display]

    def text(self) -> str:
        """The same as one text."""
        return "\n".join(self.lines()).rstrip()

    def _read(self) -> bool:
        if not select.select([self.master], [], [], 0.05)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.raw += data
        self.stream.feed(data)
        self.frames.append(self.lines())
        return bool(data)


def size_to(master: int, columns: int, rows: int) -> None:
    """Tell a terminal its size."""
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def started(
    words: Sequence[str],
    folder: Path,
    *,
    columns: int = 100,
    rows: int = 40,
    environ: Mapping[str, str] | None = None,
) -> Terminal:
    """Start a Python command on a new terminal."""
    master, slave = pty.openpty()
    size_to(master, columns, rows)
    own = {k: v for k, v in os.environ.items() if k not in ("CI", "NO_COLOR", "COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, *words],
        stdin=slave, stdout=slave, stderr=slave, cwd=folder, start_new_session=True,
        env=own | {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **(environ or {})},
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(slave)
    screen = pyte.Screen(columns, rows)
    return Terminal(process, master, screen, pyte.ByteStream(screen))
