"""Memory that this process may use, also in a container that has less than its machine.

In    the files in which Linux tells of it
Out   bytes in all, bytes that are free, and who sets the limit
Not   memory of GPUs, nor what a run will take
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Memory:
    """In bytes."""

    total: int
    free: int
    limited: bool
    """Whether a control group allows less than the machine has."""


@dataclass(frozen=True, slots=True)
class _Limit:
    most: int
    used: int


def memory(root: Path = Path("/")) -> Memory | None:
    """What there is; None where the system does not say it as Linux does.

    Args:
        root: Folder that `proc` and `sys` lie in.
    """
    told = _numbers(root / "proc/meminfo")
    if "MemTotal" not in told:
        return None
    total = told["MemTotal"] * 1024
    free = told.get("MemAvailable", told.get("MemFree", 0)) * 1024
    limits = [one for one in _limits(root) if one.most < total]
    return Memory(
        min([total, *(one.most for one in limits)]),
        max(0, min([free, *(one.most - one.used for one in limits)])),
        bool(limits),
    )


def _limits(root: Path) -> Iterator[_Limit]:
    """Those of the process's control group and of all above it, in both versions."""
    groups = _text(root / "proc/self/cgroup")
    for _, kinds, path in (line.split(":", 2) for line in groups.splitlines() if ":" in line):
        if kinds == "":
            yield from _above(root / "sys/fs/cgroup", path, "memory.max", "memory.current")
        elif "memory" in kinds.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
            yield from _above(root / "sys/fs/cgroup/memory", path, *names)


def _above(top: Path, path: str, most: str, used: str) -> Iterator[_Limit]:
    """From a group up to the top; in a container the path may be that of the host."""
    folder = top / path.strip("/")
    for place in (folder, *folder.parents):
        limit, taken = _text(place / most).strip(), _text(place / used).strip()
        if limit.isdecimal() and taken.isdecimal():
            # Pages of files are given up where room is needed.
            cached = _numbers(place / "memory.stat").get("inactive_file", 0)
            yield _Limit(int(limit), max(0, int(taken) - cached))
        if place == top:
            return


def _numbers(path: Path) -> dict[str, int]:
    found = re.findall(r"^(\w+):?\s+(\d+)", _text(path), re.MULTILINE)
    return {name: int(number) for name, number in found}


def _text(path: Path) -> str:
    with suppress(OSError, ValueError):
        return path.read_text(encoding="utf-8")
    return ""
