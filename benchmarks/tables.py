"""What a benchmark prints: tables for a person, and the machine that it ran on."""

from __future__ import annotations

import datetime
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def timed(work: Callable[[], Any], calls: int = 3) -> tuple[float, Any]:
    """Milliseconds of the fastest of a few calls, and the result: caches are warm, as in a run."""
    spent, result = float("inf"), None
    for _ in range(calls):
        start = time.perf_counter()
        result = work()
        spent = min(spent, 1e3 * (time.perf_counter() - start))
    return spent, result


def show(title: str, table: Sequence[dict[str, Any]]) -> None:
    """A table for the terminal."""
    print(f"\n{title}")
    cells = [list(table[0]), *([_cell(value) for value in row.values()] for row in table)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        print("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.2e}" if 0 < abs(value) < 1e-3 else f"{value:.4g}"
    return {True: "yes", False: "NO"}[value] if isinstance(value, bool) else str(value)


def machine() -> dict[str, Any]:
    """What it ran on, and when."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")), ""
    )
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": model or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
