"""Lines of a file, as far as they can be read.

In    a file of JSON lines
Out   the objects in it, each with the byte where its line begins; how many lines were no use
Not   a refusal: a report is made of what there is, and says what there is not
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Lost = Counter[str]
"""Name of a file to the number of its whole lines that cannot be used."""


def placed(path: Path, lost: Lost) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects of a file, if there is one; a last line that was cut short is passed over."""
    start = 0
    try:
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    row = _object(line)
                    if row is None:
                        lost[path.name] += 1
                    else:
                        yield start, row
                start += len(line)
    except FileNotFoundError:
        return
    except OSError:
        lost[path.name] += 1


def objects(path: Path, lost: Lost) -> list[dict[str, Any]]:
    """The same without their places, all at once."""
    return [row for _, row in placed(path, lost)]


def at(path: Path, start: int) -> dict[str, Any]:
    """The object of the line that begins there; empty where the file has changed since."""
    with path.open("rb") as file:
        file.seek(start)
        return _object(file.readline()) or {}


def number(value: object) -> float | None:
    """The value where it is a finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None  # type: ignore[arg-type]


def table(value: object) -> Mapping[str, Any]:
    """The value where it is a table, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
