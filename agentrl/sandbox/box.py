"""Sandbox: run code of any origin, and say how it ended.

In    code as text, from any thread; what it may use, and what it may import
Out   a Result for each call, whatever the code is or does
Not   a judge: nothing that the code prints is more than text
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from agentrl.errors import SandboxUnavailable
from agentrl.sandbox.host import PATIENCE, Setup
from agentrl.sandbox.jail import Jail
from agentrl.sandbox.local import WAYS_OUT, Local
from agentrl.sandbox.result import Limits, Result
from agentrl.sandbox.session import Session
from agentrl.sandbox.verdict import readable_code, refused
from agentrl.sandbox.view import view


class Sandbox:
    """A place to run code in; any number of threads may share one."""

    def __init__(
        self,
        *,
        limits: Limits = Limits(),  # noqa: B008
        packages: Sequence[str] = ("numpy", "sympy"),
        preload: Sequence[str] = (),
        min_level: int = 2,
        level: int | None = None,
        unsafe: bool = False,
        slots: int | None = None,
        ttl: float = 1800.0,
        patience: float = PATIENCE,
    ) -> None:
        """Describe it; nothing starts before the first use."""
        if not sys.platform.startswith("linux"):
            raise SandboxUnavailable(f"sandbox: it needs Linux, this is {sys.platform}. {WAYS_OUT}")
        self.limits = limits
        shown = view(packages)
        jail = Jail(level or 0, shown.files, shown.folders, shown.hidden)
        setup = Setup(jail, tuple(preload), ttl, patience)
        levels = [level] if level else [n for n in (3, 2) if n >= min_level] + [1] * unsafe
        self._local = Local(setup, levels, slots or 2 * (os.cpu_count() or 1))
        self._finalizer = weakref.finalize(self, self._local.close)

    @property
    def level(self) -> int:
        """How code is held here."""
        return self._local.level()

    def run(self, code: str, *, limits: Limits | None = None) -> Result:
        """Run a script in a process of its own."""
        data, why = readable_code(code)
        if why:
            return refused(why, self.level)
        return self._local.run(data, limits or self.limits)

    def session(self, *, limits: Limits | None = None) -> Session:
        """Begin cells that share their variables."""
        self._local.level()
        return Session(self._local, limits or self.limits, self)

    def close(self) -> None:
        """End everything that runs in it."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

