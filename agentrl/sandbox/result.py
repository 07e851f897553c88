"""What is asked of a sandbox, and what comes back.

In    nothing: these are the records that pass between its parts and its callers
Out   Limits of one call; Result, whose status is decided outside of the jail
Not   trust: `stdout` is whatever the code wrote, forged messages included
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from agentrl.errors import UsageError

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
    """Seconds from the start of the child, not from the queue, and not counting those in which it
    could have run but got no processor; four times as many at the most."""
    memory: int = 1024 * MiB
    """Bytes of address space beyond what a fresh child holds."""
    output_kept: int = 16 * 1024
    """Bytes of output kept: the first three quarters and the last one."""
    output_most: int = 8 * MiB
    """Bytes written before the child is ended."""
    scratch: int = 64 * MiB
    """Bytes of the child's own folder, where there is one."""
    processes: int = 16
    """Threads. Those of all sessions together count against what the user may have, and idle
    sessions keep theirs."""
    files: int = 64
    """Open descriptors."""

    def __post_init__(self) -> None:
        """Refuse what no call could run under: each would look like a failure of the sandbox."""
        for name in ("cpu", "wall"):
            value = getattr(self, name)
            if not _is_number(value) or not value > 0:
                raise UsageError(
                    f"Limits: {name}={_short(value)} is no time. Give seconds above 0."
                )
        for name, most in _MOST.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= most:
                raise UsageError(
                    f"Limits: {name}={_short(value)} can't be. Give a whole number, 1 to {most}."
                )


_MOST: Mapping[str, int] = MappingProxyType(
    {
        "memory": 1 << 60,
        "output_kept": 1 << 30,
        "output_most": 1 << 40,
        "scratch": 1 << 50,
        "processes": 1 << 15,
        "files": 1 << 20,
    }
)
"""The largest that the kernel takes, or that makes sense."""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not (
        isinstance(value, int) and value.bit_length() > 60
    )


def _short(value: object) -> str:
    return "a huge number" if isinstance(value, int) and value.bit_length() > 60 else repr(value)


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
    """Others kept it waiting for a processor until four times the wall limit: drop it."""
    lost: bool = False
    """In a session: its variables are gone, the next cell begins anew."""
    restarted: bool = False
    """In a session: this cell found none of the variables of the cells before it."""
    problem: str = ""
    """What failed, where the sandbox did."""
    backend: str = "local"
    """Where it ran: local, wasi or remote."""
