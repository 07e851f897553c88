"""Which processes live: counted from /proc."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path


def below(pid: int) -> set[int]:
    """Ids of the processes that stem from this one; those that ended are left out."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        state, parent = _state(int(folder.name))
        if state not in "ZX":
            parents[int(folder.name)] = parent
    known = {pid}
    while fresh := {one for one, parent in parents.items() if parent in known} - known:
        known |= fresh
    return known - {pid}


def living(pids: Iterable[int]) -> set[int]:
    """Those of them that live, once they had a while to end."""
    for _ in range(100):
        alive = {pid for pid in pids if _state(pid)[0] not in "ZX"}
        if not alive:
            break
        time.sleep(0.1)
    return alive


def _state(pid: int) -> tuple[str, int]:
    """How it is, and its parent; X where it is no more."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return "X", 0
    return state, int(parent)
