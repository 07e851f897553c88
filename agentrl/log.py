"""What was said in one attempt at a run → logs/attempt-NNN.log.

In    events; what the process writes to standard error, and environments print, meanwhile
Out   a text file for each start and each resumption, without the secrets of this process
Not   what would steer a terminal, which is written out; nor a reason to stop: where the log cannot
      be written, the run goes on without it
"""

from __future__ import annotations

import itertools
import os
import platform
import re
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from agentrl.console import describe
from agentrl.events import Event
from agentrl.prints import copied
from agentrl.version import __version__
from agentrl.visible import visible

MOST = 50_000_000
"""Characters of one log."""
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_SHORTEST = 8
"""Characters of a value that is taken for a secret: shorter ones would blot out words."""
_IN_URL = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
_NAMED = r"[\w.-]*(?:key|token|secret|password|passwd|authorization)"
_IN_WORDS = re.compile(
    rf"({_NAMED}['\"]?\s*[=:]\s*(?:bearer\s+)?['\"]?|--{_NAMED}\s+|bearer\s+)([^\s'\",]{{8,}})",
    re.IGNORECASE,
)


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Log:
    """Appends to a file that is made when there is something to say."""

    folder: Path
    command: Sequence[str]
    clean: Callable[[str], str]
    now: Callable[[], datetime] = _now
    left: int = MOST
    file: TextIO | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, event: Event) -> None:
        """Write an event as the plain lines of the command line have it."""
        if text := describe(event):
            self.said(f"{self.now().isoformat(timespec='seconds')} {text}\n")

    def said(self, text: str) -> None:
        """Write what was said elsewhere."""
        with self.lock:
            if self.left > 0:
                self._write(visible(self.clean(text)))

    def close(self) -> None:
        """No more is written."""
        with self.lock, suppress(OSError):
            self.left = 0
            if self.file is not None:
                self.file.close()

    def _write(self, text: str) -> None:
        try:
            if self.file is None:
                self.file = self._opened()
            self.file.write(text[: self.left])
            self.left -= len(text)
            if self.left <= 0:
                self.file.write("\n[... more was said ...]\n")
            self.file.flush()
        except (OSError, ValueError):
            self.left = 0

    def _opened(self) -> TextIO:
        self.folder.mkdir(exist_ok=True)
        for number in itertools.count(1):
            with suppress(FileExistsError):
                path = self.folder / f"attempt-{number:03d}.log"
                file = path.open("x", encoding="utf-8", errors="backslashreplace")
                file.write(self.clean(self._heading()))
                return file
        raise AssertionError("numbers do not end")

    def _heading(self) -> str:
        began = self.now().isoformat(timespec="seconds")
        return (
            f"{began} agentrl {__version__} python {platform.python_version()} "
            f"{platform.node()} process {os.getpid()}\n"
            f"{began} {shlex.join(self.command) or 'called from Python'}\n"
        )


@contextmanager
def logged(folder: Path, command: Sequence[str]) -> Iterator[Log]:
    """A log that also takes what is said on this process's own streams, for a block."""
    log = Log(folder, command, cleaner(os.environ))
    try:
        with copied(log.said):
            yield log
    finally:
        log.close()


def cleaner(environ: Mapping[str, str]) -> Callable[[str], str]:
    """A function that takes secrets out of a text.

    Secrets are the values of variables whose names say so, passwords in addresses, and what
    stands behind words like `api_key=`.
    """
    secrets = sorted(
        {v for k, v in environ.items() if _SECRET.search(k) and len(v) >= _SHORTEST},
        key=len,
        reverse=True,
    )

    def clean(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "***")
        return _IN_WORDS.sub(r"\1***", _IN_URL.sub("***", text))

    return clean
