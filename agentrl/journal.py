"""Lines appended as they happen, so that a crash loses none that was begun before the last.

In    rows, one after the other
Out   a file of whole lines; a last line that was cut short is passed over, and gone on resuming
Not   a second writer: whoever opens a journal holds its folder (disk.hold)
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agentrl import disk
from agentrl.errors import RunError, UsageError

SYNC = 16
"""Lines after which the disk is waited for: so many may be lost with the power, none with the
process."""


class Journal:
    """A file that grows by whole lines."""

    def __init__(self, path: Path, after: str = disk.GO_ON, sync: int = SYNC) -> None:
        """Open a file for appending; a line that was cut short is taken off its end.

        Args:
            path: Of the file.
            after: What a person does where the disk takes no more, as a sentence.
            sync: Lines after which the disk is waited for.
        """
        _mend(path)
        self._after, self._every = after, sync
        # Unbuffered: a line that the disk refused is not tried again behind our back.
        self._file = path.open("ab", buffering=0)
        self._waiting = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a row, seen by other processes at once.

        Raises:
            RunError: the disk takes no more.
        """
        with self._told():
            end = self._file.seek(0, os.SEEK_END)
            data = memoryview(disk.line(row).encode())
            try:
                while data:  # where room ends inside a line, the first write takes a part of it
                    data = data[self._file.write(data) :]
            except OSError:
                # Others may still end and be written, where room was made meanwhile.
                with suppress(OSError):
                    self._file.truncate(end)
                raise
            self._waiting += 1
            if self._waiting >= self._every:
                self._sync()

    def close(self) -> None:
        """End with all lines on disk.

        Raises:
            RunError: the disk does not take them.
        """
        with self._file, self._told():
            self._sync()

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._waiting = 0

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(
                f"{self._file.name}: cannot be written ({error.strerror}). {self._after}"
            ) from error


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file, one at a time; none where there is no file.

    Raises:
        UsageError: a line is no JSON object, with its place.
    """
    for _, _, row in placed(path):
        yield row


def placed(path: Path) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The same, each with the byte where its line begins and the bytes that it has."""
    if not path.exists():
        return
    start = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n"):
                yield start, len(line), _object(f"{path}:{number}", line)
            start += len(line)


def _object(where: str, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{where}: not JSON ({error}). The file was changed by something else. "
            "Take the line out, or evaluate anew."
        ) from error
    if not isinstance(row, dict):
        raise UsageError(f"{where}: not an episode. Lines are objects. Name another file.")
    return row


def _mend(path: Path) -> None:
    if not path.exists():
        return
    with path.open("rb+") as file:
        end = size = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            file.truncate(end)
