"""Writing so that a crash at any moment leaves whole files.

In    a path and what it should hold
Out   whole lines appended, whole files and folders put in place by a rename; a folder held
Not   a hold on file systems that know none, such as some that are shared by a network
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from agentrl.errors import RunError, UsageError

LOCK = ".lock"
PATIENCE = (0.05, 0.1, 0.2)
"""Pauses before a folder counts as held: someone who only looks at it lets go at once."""
GO_ON = "What was written before stays. Make room, then go on with --resume."
"""What to do where the disk takes no more."""

Lock = Callable[[int, int], None]


def plain(value: Any) -> Any:
    """The value as strict JSON has it: NaN and infinities become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)


def line(row: Mapping[str, Any]) -> str:
    """One row as one line of strict JSON; halves of surrogate pairs become question marks."""
    text = json.dumps(plain(row), ensure_ascii=False, allow_nan=False) + "\n"
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def append(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append whole lines and see them on disk before returning.

    A last line that was cut short goes first, else the next one would be spoilt with it; where
    there is no room, the file stays as it was.
    """
    data = "".join(line(row) for row in rows).encode()
    with path.open("ab+", buffering=0) as file:
        end = _whole(file)
        if end < file.seek(0, os.SEEK_END):
            file.truncate(end)
        try:
            _write(file, data)
            os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):
                file.truncate(end)
            raise


def _write(file: BinaryIO, data: bytes) -> None:
    """All of it: a disk that is nearly full takes a part without a word."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _whole(file: BinaryIO) -> int:
    """Where the last whole line of a file ends."""
    end = file.seek(0, os.SEEK_END)
    block = 1 << 16
    while end:
        start = max(0, end - block)
        file.seek(start)
        at = file.read(end - start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0


def replace(path: Path, text: str) -> None:
    """Put a whole file in place of an older one, which stays where this fails."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("w", encoding="utf-8", errors="replace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError:
        with suppress(OSError):
            aside.unlink()
        raise
    sync_folder(path.parent)


def put(path: Path, text: str, after: str = GO_ON) -> None:
    """The same for what must be written.

    Raises:
        RunError: it cannot be, in one line that ends with `after`.
    """
    try:
        replace(path, text)
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror}). {after}") from error


def sweep(folder: Path) -> None:
    """Remove what `replace` had put aside when its process was killed."""
    for path in folder.glob(".*.*"):
        if path.suffix[1:].isdecimal() and path.is_file():
            path.unlink()


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file; a last line that was cut short is passed over.

    Raises:
        UsageError: a whole line is not JSON.
    """
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            if not text.endswith(b"\n"):
                return
            try:
                yield json.loads(text)
            except ValueError as error:
                raise UsageError(
                    f"{path}:{number}: not JSON ({error}). A line is one JSON object. "
                    "Take the line out, or the file from a copy."
                ) from error


def hold(
    folder: Path, *, lock: Lock = fcntl.flock, pauses: Sequence[float] = PATIENCE
) -> TextIO | None:
    """Keep a folder for oneself until the returned file is closed; None: another has it.

    The system lets go when the process ends, however it ends. The file says who holds it.
    """
    file = (folder / LOCK).open("a+", encoding="utf-8")
    for pause in (*pauses, None):
        try:
            lock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if pause is None:
                file.close()
                return None
            time.sleep(pause)
        except OSError:  # a file system without locks
            break
    file.truncate(0)
    file.write(f"process {os.getpid()} on {platform.node()}\n")
    file.flush()
    return file


def is_held(folder: Path, *, lock: Lock = fcntl.flock) -> bool:
    """Whether a process keeps a folder for itself; true where that cannot be known."""
    try:
        with (folder / LOCK).open("rb") as file:
            lock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def holder(folder: Path) -> str:
    """Who holds a folder, as far as it says so."""
    with suppress(OSError, ValueError):
        return (folder / LOCK).read_text(encoding="utf-8").strip() or "another process"
    return "another process"


def sync_file(path: Path) -> None:
    """See a whole file on disk before returning; what the disk says against it is raised.

    The system's copy in memory is given up: whoever reads the file next reads the disk.
    """
    with path.open("rb") as file:
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
