"""Writing so that a crash at any moment leaves whole files.

In    a path and what it should hold
Out   whole lines appended, whole files and folders put in place by a rename
Not   locks against a second writer (record.py refuses a folder that holds a run)
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


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


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
