"""What an episode must leave as it found it: the process around it.

In    this process
Out   Surroundings at a moment; global random state; both can be put back
Not   everything: sockets without a descriptor, locks and the disk at large are not looked at
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_OWN_THREADS = ("agentrl-author", "asyncio_")
"""Beginnings of names of threads that are ours: they wait for more work."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What can be counted of a process."""

    children: frozenset[str]
    """Descendants, as process id and start time."""
    descriptors: frozenset[str]
    threads: frozenset[str]
    variables: dict[str, str]
    folder: str

    def __sub__(self, before: Surroundings) -> dict[str, int]:
        """What there is more of than before, by its name."""
        more = {
            "child process": len(self.children - before.children),
            "open descriptor": len(self.descriptors) - len(before.descriptors),
            "thread": len(self.threads - before.threads),
        }
        return {name: count for name, count in more.items() if count > 0}


def surroundings() -> Surroundings:
    """The process as it is."""
    threads = (t for t in threading.enumerate() if not t.name.startswith(_OWN_THREADS))
    return Surroundings(
        children=frozenset(f"{pid}@{start}" for pid, start in descendants()),
        descriptors=_descriptors(),
        threads=frozenset(f"{t.name}@{t.ident}" for t in threads),
        variables=dict(os.environ),
        folder=_folder(),
    )


def descendants() -> list[tuple[int, str]]:
    """Process ids of children and theirs, each with its start; none where there is no /proc."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            # The name may hold spaces and brackets; what follows it does not.
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append((int(entry.name), fields[19]))
    found: list[tuple[int, str]] = []
    todo = [os.getpid()]
    while todo:
        for child in parents.get(todo.pop(), ()):
            found.append(child)
            todo.append(child[0])
    return sorted(found)


def told_to(pid: int) -> str:
    """Arguments and environment variables of a process, as text."""
    out = b""
    for name in ("cmdline", "environ"):
        with suppress(OSError):
            out += Path(f"/proc/{pid}/{name}").read_bytes() + b"\0"
    return out.decode("utf-8", "replace").replace("\0", "\n")


def random_states() -> dict[str, Any]:
    """Global random generators by name, as something that can be compared."""
    found: dict[str, Any] = {"random": random.getstate(), "numpy.random": _numpy_state()}
    if torch := sys.modules.get("torch"):
        found["torch"] = torch.get_rng_state().numpy().tobytes()
    return found


@contextmanager
def put_back() -> Iterator[None]:
    """Put variables, folder and global generators back behind the block."""
    variables, folder, state, numpy_state = (
        dict(os.environ),
        _folder(),
        random.getstate(),
        _numpy_state(),
    )
    try:
        yield
    finally:
        if dict(os.environ) != variables:
            os.environ.clear()
            os.environ.update(variables)
        if folder and _folder() != folder:
            os.chdir(folder)
        random.setstate(state)
        _set_numpy_state(numpy_state)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that temporary files go to while the block runs."""
    before, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        tempfile.tempdir = os.environ["TMPDIR"] = name
        try:
            yield Path(name)
        finally:
            tempfile.tempdir = before
            if variable is None:
                os.environ.pop("TMPDIR", None)
            else:
                os.environ["TMPDIR"] = variable


def _descriptors() -> frozenset[str]:
    with suppress(OSError):
        return frozenset(os.listdir("/proc/self/fd"))
    return frozenset()


def _folder() -> str:
    with suppress(OSError):
        return os.getcwd()
    return ""


def _numpy_state() -> tuple[Any, ...]:
    name, keys, *rest = np.random.get_state(legacy=True)
    return (name, bytes(np.asarray(keys).tobytes()), *rest)


def _set_numpy_state(state: tuple[Any, ...]) -> None:
    name, keys, *rest = state
    np.random.set_state((name, np.frombuffer(keys, dtype=np.uint32), *rest))
