"""Cassette: answers of the web on file, so that an episode can be played again.

In    a JSONL file, and requests with their answers
Out   the first answer that was recorded for a request
Not   for several processes that record into one file at the same time
"""

from __future__ import annotations

import base64
import json
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from agentrl import disk
from agentrl.errors import UsageError

Key = tuple[str, str, str]
"""Method, URL, body."""
_ODD = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


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
        self._whole = False
        """Whether the file is known to end with a whole line."""
        for key, answer in _read(path):
            self._answers.setdefault(key, answer)

    def find(self, key: Key) -> Answer | None:
        """The answer to a request, if it was recorded."""
        return self._answers.get(key)

    def keep(self, key: Key, answer: Answer) -> Answer:
        """Record an answer, and return the one that counts: the first."""
        with self._lock:
            if key not in self._answers:
                if not self._whole:
                    _end_last_line(self.path)
                    self._whole = True
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
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error}). Give another cassette.") from error
    found = [_entry(path, i, line) for i, line in enumerate(lines[:-1], 1) if line.strip()]
    return found if (last := _last(lines[-1])) is None else [*found, last]


def _last(line: bytes) -> tuple[Key, Answer] | None:
    """What a line without an end says; None where a process that was killed left half of one."""
    with suppress(UsageError):
        return _entry(Path(), 0, line)
    return None


def _end_last_line(path: Path) -> None:
    """End the last line of a file, or take it away where it is half a row."""
    if not path.exists():
        return
    data = path.read_bytes()
    start = data.rfind(b"\n") + 1
    if start < len(data):
        row = _last(data[start:])
        with path.open("r+b") as file:
            file.seek(0, os.SEEK_END)
            if row is not None:
                file.write(b"\n")
            else:
                file.truncate(start)


def _entry(path: Path, number: int, line: bytes) -> tuple[Key, Answer]:
    try:
        row = json.loads(line.decode("utf-8"))
        text = row.get("text")
        body = (
            base64.b64decode(row["base64"], validate=True) if text is None else text.encode("utf-8")
        )
        answer = Answer(int(row["status"]), str(row["from"]), str(row["kind"]), body)
        return (str(row["method"]), str(row["url"]), str(row["body"])), answer
    except _ODD as error:
        raise UsageError(
            f"{path}:{number}: no recorded answer ({type(error).__name__}: {error}). "
            "Delete the line, and record it again."
        ) from error
