"""Sandbox: run code of any origin, and say how it ended.

In    code as text, from any thread; what it may use, and what it may import
Out   a Result for each call, whatever the code is or does
Not   a judge: nothing that the code prints is more than text
"""

from __future__ import annotations

import importlib
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from agentrl.errors import SandboxUnavailable, UsageError, suggestion
from agentrl.sandbox.host import PATIENCE, Setup
from agentrl.sandbox.jail import Jail
from agentrl.sandbox.local import Local
from agentrl.sandbox.result import Limits, Result
from agentrl.sandbox.session import Session
from agentrl.sandbox.strictest import WAYS_OUT
from agentrl.sandbox.verdict import readable_code, refused
from agentrl.sandbox.view import view

STRICTEST = 3
BACKENDS = ("local", "wasi", "remote")


class Runner(Protocol):
    """What runs code elsewhere than in a process of this machine."""

    def run(self, code: object, limits: Limits) -> Result:
        """Run a script."""
        ...

    def close(self) -> None:
        """Let go of what it holds."""
        ...


class Sandbox:
    """A place to run code in; any number of threads may share one.

    It can import the standard library and the packages that are named, with what those need. It
    has no network, starts no processes, and sees no file of this machine beyond that.
    """

    def __init__(
        self,
        *,
        limits: Limits = Limits(),  # noqa: B008
        packages: Sequence[str] = ("numpy", "sympy"),
        preload: Sequence[str] = (),
        min_level: int = 2,
        level: int | None = None,
        unsafe: bool = False,
        backend: str = "local",
        url: str | None = None,
        slots: int | None = None,
        ttl: float = 1800.0,
        patience: float = PATIENCE,
    ) -> None:
        """Describe it; nothing starts before the first use.

        Args:
            limits: of a call or a cell that brings none.
            packages: distributions, as pip names them, that code may import.
            preload: modules that code finds imported: they are paid for once, not in each call.
            min_level: 2 or 3; what holds less is refused.
            level: exactly this one, where the strictest that works is not wanted.
            unsafe: accept level 1, which limits time and memory and holds nothing. For code that
                you trust.
            backend: local, wasi or remote.
            url: of the remote server.
            slots: calls at once; the others queue, which counts towards no limit. Twice the
                number of processors, if not given.
            ttl: seconds after which an idle session is ended.
            patience: seconds in which the server of this sandbox must answer.

        Raises:
            UsageError: something of it can't be.
            SandboxUnavailable: it asks for less isolation than is refused without `unsafe`.
        """
        self.limits = limits
        self._backend = backend
        if backend not in BACKENDS:
            hint = suggestion(backend, BACKENDS, f"There are {', '.join(BACKENDS)}.")
            raise UsageError(f"sandbox: backend={backend!r} is none. {hint}")
        if (url is None) == (backend == "remote"):
            raise UsageError("sandbox: url= goes with backend='remote'. Give both, or none.")
        self._elsewhere: Runner | None = None
        if backend != "local":
            self._elsewhere = _runner(backend, url)
            self._finalizer = weakref.finalize(self, self._elsewhere.close)
            return
        for name, value in (("slots", slots), ("ttl", ttl), ("patience", patience)):
            if value is not None and not value > 0:
                raise UsageError(f"sandbox: {name}={value}. Give a number above 0.")
        if isinstance(packages, str) or isinstance(preload, str):
            raise UsageError("sandbox: packages and preload are lists. Write ('numpy',).")
        levels = _levels(min_level, level, unsafe)
        shown = view(packages)
        jail = Jail(0, shown.files, shown.folders, shown.hidden)
        setup = Setup(jail, tuple(preload), ttl, patience)
        self._local = Local(setup, levels, slots or 2 * (os.cpu_count() or 1))
        self._finalizer = weakref.finalize(self, self._local.close)

    @property
    def level(self) -> int:
        """How code is held here; 0 where another backend holds it.

        Raises:
            SandboxUnavailable: this machine can't hold it as is asked.
        """
        return 0 if self._elsewhere is not None else self._local.level()

    def run(self, code: str, *, limits: Limits | None = None) -> Result:
        """Run a script in a process of its own.

        It raises for nothing that the code is or does. The same code prints the same: hashes and
        the global generators of `random` and numpy begin alike in each call. What asks for chance
        by name (`secrets`, a numpy generator without a seed), the time, and addresses differ.

        Args:
            code: Python, at most 64 KiB.
            limits: those of the sandbox, if not given.

        Raises:
            UsageError: the sandbox is closed, or can't be had on this machine.
        """
        limits = limits or self.limits
        if self._elsewhere is not None:
            return self._elsewhere.run(code, limits)
        level = self._local.level()
        data, why = readable_code(code)
        return refused(why, level) if why else self._local.run(data, limits)

    def session(self, *, limits: Limits | None = None) -> Session:
        """Begin a session, whose cells share their variables.

        Raises:
            UsageError: as `run`; or another backend, which has none.
        """
        if self._elsewhere is not None:
            raise UsageError(f"sandbox: backend={self._backend!r} has no sessions. Use run.")
        self._local.level()
        return Session(self._local, limits or self.limits, self)

    def close(self) -> None:
        """End everything that runs in it; it happens by itself when nobody holds it any more."""
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


def _levels(min_level: int, level: int | None, unsafe: bool) -> tuple[int, ...]:
    """The levels to try, the strictest first."""
    known = range(1, STRICTEST + 1)
    for name, value in (("min_level", min_level), ("level", level)):
        if value is not None and value not in known:
            raise UsageError(f"sandbox: {name}={value!r} is none. There are 1, 2 and 3.")
    lowest = 1 if unsafe else min_level
    if min(lowest, level or lowest) < 2 and not unsafe:
        raise SandboxUnavailable(f"sandbox: level 1 holds nothing. {WAYS_OUT}")
    if not sys.platform.startswith("linux"):
        raise SandboxUnavailable(f"sandbox: it needs Linux, and this is {sys.platform}. {WAYS_OUT}")
    return (level,) if level else tuple(range(STRICTEST, lowest - 1, -1))


def _runner(backend: str, url: str | None) -> Runner:
    """A backend, whose module is loaded only where it is wanted."""
    module = importlib.import_module(f"agentrl.sandbox.{backend}")
    make: Callable[..., Any] = getattr(module, f"{backend.capitalize()}Runner")
    runner: Runner = make() if url is None else make(url)
    return runner
