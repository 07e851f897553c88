"""Cassette: answers of the web on file, so that an episode can be played again.

In    a JSONL file, and requests with their answers
Out   the first answer that was recorded for a request
Not   for several processes that record into one file at the same time
"""

from __future__ import annotations

import base64
import json
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from agentrl import disk
from agentrl.errors import UsageError

Key = tuple[str, str, str]
"""Method, URL, body."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said in the end."""

    status: int
    url: str
    """Where it came from, after redirects."""
    kind: str
    """Its content type."""
    body: bytes


class Cassette:
    """One file of answers; threads may share it."""

    def __init__(self, path: Path) -> None:
        """Read what is there; a file that is not there yet holds nothing."""
        self.path = path
        self._lock = threading.Lock()
        self._answers: dict[Key, Answer] = {}
        for key, answer in _read(path):
            self._answers.setdefault(key, answer)

    def find(self, key: Key) -> Answer | None:
        """The answer to a request, if it was recorded."""
        return self._answers.get(key)

    def keep(self, key: Key, answer: Answer) -> Answer:
        """Record an answer, and return the one that counts: the first."""
        with self._lock:
            if key not in self._answers:
                disk.append(self.path, [_row(key, answer)])
                self._answers[key] = answer
            return self._answers[key]


@cache
def cassette(path: Path) -> Cassette:
    """The one of this process for a file."""
    return Cassette(path)


def _row(key: Key, answer: Answer) -> dict[str, Any]:
    method, url, body = key
    row: dict[str, Any] = {"method": method, "url": url, "body": body}
    row |= {"status": answer.status, "from": answer.url, "kind": answer.kind}
    try:
        return row | {"text": answer.body.decode("utf-8")}
    except UnicodeDecodeError:
        return row | {"base64": base64.b64encode(answer.body).decode("ascii")}


def _read(path: Path) -> list[tuple[Key, Answer]]:
    if not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error}). Give another cassette.") from error
    # A process that was killed may have left half a line at the end.
    return [_entry(path, i, line) for i, line in enumerate(lines[:-1], 1) if line.strip()]


def _entry(path: Path, number: int, line: str) -> tuple[Key, Answer]:
    try:
        row = json.loads(line)
        text = row.get("text")
        body = base64.b64decode(row["base64"]) if text is None else text.encode("utf-8")
        answer = Answer(int(row["status"]), str(row["from"]), str(row["kind"]), body)
        return (str(row["method"]), str(row["url"]), str(row["body"])), answer
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path}:{number}: no recorded answer ({type(error).__name__}: {error}). "
            "Delete the line, and record it again."
        ) from error
