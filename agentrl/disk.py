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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

LOCK = ".lock"


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
    """One row as one line of strict JSON."""
    return json.dumps(plain(row), ensure_ascii=False, allow_nan=False) + "\n"


def append(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append whole lines and see them on disk before returning."""
    text = "".join(line(row) for row in rows)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def replace(path: Path, text: str) -> None:
    """Put a whole file in place of an older one."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file; a last line that was cut short is passed over."""
    with path.open(encoding="utf-8") as file:
        for text in file:
            if text.endswith("\n"):
                yield json.loads(text)


def hold(folder: Path) -> TextIO | None:
    """Keep a folder for oneself until the returned file is closed; None: another has it.

    The system lets go when the process ends, however it ends.
    """
    file = (folder / LOCK).open("w", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:
        return file
    return file


def sync_file(path: Path) -> None:
    """See a whole file on disk before returning; what the disk says against it is raised."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
