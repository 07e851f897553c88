"""What is asked of a sandbox, and what comes back.

In    nothing: these are the records that pass between its parts and its callers
Out   Limits of one call; Result, whose status is decided outside of the jail
Not   trust: `stdout` is whatever the code wrote, forged messages included
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MiB = 1 << 20

Status = Literal[
    "ok",
    "error",
    "timeout_cpu",
    "timeout_wall",
    "memory",
    "output_limit",
    "killed",
    "sandbox_failure",
]
"""ok: it ran to its end. error: it raised, could not be compiled, or is no text that could be run.

The next five say what ended it; `sandbox_failure` is nobody's code's fault, and no reward may
come of it.
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call, or one cell of a session, may use."""

    cpu: float = 5.0
    """Seconds of processor time; this decides, so that a busy host changes no outcome."""
    wall: float = 12.0
    """Seconds from the start of the child, not from the queue."""
    memory: int = 1024 * MiB
    """Bytes of address space beyond what a fresh child holds."""
    output_kept: int = 16 * 1024
    """Bytes of output kept: the first three quarters and the last one."""
    output_most: int = 8 * MiB
    """Bytes written before the child is ended."""
    scratch: int = 64 * MiB
    """Bytes of the child's own folder, where there is one."""
    processes: int = 64
    """Threads."""
    files: int = 64
    """Open descriptors."""


MAX_CODE = 64 * 1024
"""Bytes of code, as UTF-8."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one call."""

    status: Status
    stdout: str
    """What was written to stdout and stderr, in order, shortened in the middle; decodable."""
    seconds: float
    """From the start of the child to its end, without the queue."""
    level: int
    """How it was held: 3 namespaces, 2 Landlock and seccomp, 1 limits alone; 0 where another
    backend holds it."""
    cpu: float = 0.0
    """Seconds of processor time."""
    cut: int = 0
    """Bytes of output left out in the middle."""
    signal: int | None = None
    """What killed the child, where a signal did."""
    host_overload: bool = False
    """The wall clock ran out while the child had got little of the processor: drop it."""
    lost: bool = False
    """In a session: its variables are gone, the next cell begins anew."""
    restarted: bool = False
    """In a session: this cell found none of the variables of the cells before it."""
    problem: str = ""
    """What failed, where the sandbox did."""
    backend: str = "local"
    """Where it ran: local, wasi or remote."""
