"""Python: a policy's code, in a sandbox that all share.

In    code, whatever a policy may write
Out   ToolResult, with the level of isolation as a metric; EnvironmentFault where nobody's code
      is to blame
Not   a grader: what code prints is for the policy to read, and nothing is decided by it
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from agentrl.errors import SandboxUnavailable, UsageError
from agentrl.sandbox import Limits, Result, Sandbox, Session
from agentrl.task import Task
from agentrl.toolbox import Toolbox
from agentrl.tooling import ToolResult, ToolSpec, tool
from agentrl_tools._ending import ending
from agentrl_tools._exchange import LEVEL, Exchange
from agentrl_tools._options import names
from agentrl_tools.files import Files

__all__ = ["Limits", "Python", "Result", "Sandbox", "Session", "run", "shared", "told"]

PATIENCE: Final = 3600.0
"""Seconds of a tool whose work is done in a sandbox. That ends code far earlier, by limits of its
own that leave out the queue; what waits here is a busy machine, which must not become the
policy's fault."""
PRELOADED: Final = ("numpy", "sympy")
"""Packages that are imported once for all calls, where nothing else is said."""

_LOCK: Final = threading.Lock()


def shared(
    packages: tuple[str, ...] = ("numpy", "sympy"),
    preload: tuple[str, ...] = (),
    unsafe: bool = False,
) -> Sandbox:
    """The sandbox of this process for these packages, made when it is first asked for.

    It ends with the process. Arguments are those of `Sandbox`.
    """
    # Threads of many episodes ask at once, and a second one would be a second server.
    with _LOCK:
        return _made(packages, preload, unsafe)


@cache
def _made(packages: tuple[str, ...], preload: tuple[str, ...], unsafe: bool) -> Sandbox:
    return Sandbox(packages=packages, preload=preload, unsafe=unsafe)


def told(result: Result, limits: Limits | None = None, note: str = "") -> ToolResult:
    """What a policy reads of a result: all that was printed, why it ended early, and a note.

    Raises:
        EnvironmentFault: The sandbox failed, or the machine was too busy to tell.
    """
    why = ending(result, limits or Limits())
    gone = "variables of earlier code are gone" if result.lost or result.restarted else ""
    notes = "; ".join(part for part in (why, gone, note) if part)
    parts = [result.stdout.rstrip("\n"), f"[{notes}]" if notes else ""]
    words = "\n".join(part for part in parts if part) or "(nothing was printed)"
    return ToolResult(
        words, metrics={"sandbox_level": float(result.level)}, is_error=result.status != "ok"
    )


def run(code: str, sandbox: Sandbox, limits: Limits | None = None) -> ToolResult:
    """Run a script, and put what came of it into words.

    Raises:
        EnvironmentFault: The sandbox failed, or the machine was too busy to tell.
    """
    limits = limits or sandbox.limits
    return told(sandbox.run(code, limits=limits), limits)


class Python(Toolbox):
    """Run Python in a sandbox."""

    def __init__(
        self,
        *,
        session: bool = True,
        packages: str | Sequence[str] = ("numpy", "sympy"),
        preload: str | Sequence[str] | None = None,
        seconds: float = 5.0,
        megabytes: float = 1024.0,
        unsafe: bool = False,
        files: Files | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        """Say what code may use.

        Args:
            session: Whether variables last through an episode, or each call is a script.
            packages: Distributions, as pip names them, that code may import.
            preload: Modules that it finds imported, at no cost to a call; numpy and sympy, where
                they are among the packages, if not given.
            seconds: Of the processor that a call may take; of the clock it is 2.4 times as much,
                and at least 12.
            megabytes: Of memory that it may take, each 2^20 bytes.
            unsafe: Run code even where this machine cannot hold it: it may then do whatever
                this process may.
            files: The episode's files, which lie in the folder where code starts. It is another
                box of the environment, named before this one. It needs a session and level 3.
            sandbox: Where to run code, instead of the sandbox of this process for the packages.

        Raises:
            UsageError: Something of it can't be.
        """
        if not (0 < seconds < math.inf and 0 < megabytes < math.inf):
            raise UsageError("python: seconds and megabytes must be above 0, and finite.")
        if files is not None and not session:
            raise UsageError("python: files are shared with a session. Leave session=False out.")
        self._packages = names(packages)
        among = [name for name in PRELOADED if name in self._packages]
        self._preload = names(among if preload is None else preload)
        self._limits = Limits(seconds, max(12.0, 2.4 * seconds), int(megabytes * 2**20))
        self._unsafe, self._given, self._files = unsafe, sandbox, files
        self._keeps = session
        self._session: Session | Exchange | None = None

    def start(self, task: Task) -> None:
        """Open the session of an episode.

        Raises:
            SandboxUnavailable: This machine can't hold code as is asked.
        """
        sandbox = self._sandbox()
        level = sandbox.level  # a machine that can't hold code is met here, not in a call
        if self._files is not None and level != LEVEL:
            raise SandboxUnavailable(
                f"python: files are shared with code at level {LEVEL}, and here code is held at "
                f"level {level}, without a folder to write to. Leave files= out: the file tools "
                "work by themselves at every level."
            )
        if self._files is not None:
            self._session = Exchange(sandbox, self._files.folder, self._limits)
        elif self._keeps:
            self._session = sandbox.session(limits=self._limits)

    def release(self) -> None:
        """Close the session."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def tools(self) -> Mapping[str, ToolSpec]:
        """The tool `python`, with what is there for this code in its description."""
        found = dict(super().tools())
        # Calls of one turn share their variables, so they run in the order they were written.
        found["python"] = replace(
            found["python"], description=self._description(), parallel=not self._keeps
        )
        return found

    @tool(timeout=PATIENCE)
    def python(self, code: str) -> ToolResult:
        """Run Python code and read what it prints.

        Args:
            code: Any number of lines.
        """
        if not self._keeps:
            return run(code, self._sandbox(), self._limits)
        session = self._session
        if session is None:
            raise UsageError("python: no episode has begun. Call start first.")
        if isinstance(session, Exchange):
            result, note = session.run(code)
            return told(result, self._limits, note)
        return told(session.run(code), self._limits)

    def _sandbox(self) -> Sandbox:
        return self._given or shared(self._packages, self._preload, self._unsafe)

    def _description(self) -> str:
        shown = "; the value of a last expression is shown" if self._keeps else ""
        stay = "Variables, functions and imports stay for later calls. " if self._keeps else ""
        there = " and ".join(filter(None, [", ".join(self._packages[:-1]), *self._packages[-1:]]))
        there = there or "The standard library"
        verb = "are" if len(self._packages) > 1 else "is"
        rest = "files and the network are not"
        if self._files is not None:
            rest = "the network is not. Your files lie in the folder where code starts"
        return (
            f"Run Python code and read what it prints{shown}.\n\n"
            f"{stay}{there} {verb} there; {rest}."
        )
