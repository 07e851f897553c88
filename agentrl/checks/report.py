"""What the checks of an environment found.

In    findings, one a problem, one a check that passed or was left out
Out   Report: what to change and where, for people and for programs
Not   a promise that an environment can be learned from
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    where: str
    """The line to change, as `file:line`."""
    why: str
    next: str
    """What to do about it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one check."""

    name: str
    status: Status
    what: str
    """What must hold."""
    where: str = ""
    """The line to change, as `file:line`; empty unless it failed."""
    why: str = ""
    """What is wrong, why it was left out, or how much was looked at."""
    next: str = ""

    def __str__(self) -> str:
        """The finding as one line."""
        if self.status == "failed":
            return f"{self.where}: {self.name}: {self.why} {self.next}"
        return f"{self.name}: {self.status}. {self.what}{f' ({self.why})' if self.why else ''}"


@dataclass(frozen=True, slots=True)
class Report:
    """All findings of an environment, in the order of the checks."""

    env: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[Finding, ...]:
        """What is to be mended."""
        return tuple(f for f in self.findings if f.status == "failed")

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {"env": self.env, "ok": self.ok, "checks": [asdict(f) for f in self.findings]}

    def __str__(self) -> str:
        """One line a finding."""
        return "\n".join(map(str, self.findings))
