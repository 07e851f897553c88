"""Finding: one thing that was looked at.

In    what was seen
Out   ok, warn or missing, in words, with what to do about it
Not   how it is shown: cli/doctor.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "missing"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What is so, and the cure where it should not be."""

    name: str
    status: Status
    said: str
    fix: str = ""
    """What to do; empty only where nothing is wrong."""
    needed: bool = False
    """Whether no training can run where this is missing."""

    @property
    def stops(self) -> bool:
        """Whether training can't run because of it."""
        return self.needed and self.status == "missing"


Check = Callable[[], Iterable[Finding]]
