"""Which level of isolation holds on this machine: found by trying to get out.

In    what a server shall be, and the levels to try
Out   a running server, at the first level that let nothing out
Not   a list of features: a kernel that has them may still be told not to use them
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache

from agentrl.errors import SandboxUnavailable, UsageError
from agentrl.sandbox.call import Ending, Watch
from agentrl.sandbox.child import Child
from agentrl.sandbox.host import Server, ServerFailed, Setup
from agentrl.sandbox.output import Output
from agentrl.sandbox.probe import probe
from agentrl.sandbox.result import Limits, Result
from agentrl.sandbox.verdict import broken, of_script

WAYS_OUT = (
    "Run on Linux 5.13 or later with Landlock and seccomp, also in Docker; use backend='wasi' or "
    "'remote'; or, for code that you trust, unsafe=True."
)
UNSAFE = (
    "sandbox: level 1 is no isolation. Code that a policy writes runs with the rights of this "
    "process: it can read its files, use its network and end it. Limits on time and memory hold."
)


def strictest(setup: Setup, levels: Sequence[int]) -> tuple[Server, int]:
    """A server at the first of these levels that holds; once known, a level is not tried again.

    Raises:
        SandboxUnavailable: none holds; the message says what got out of each.
        UsageError: what shall be preloaded can't be.
    """
    known, key = _known(), (setup, tuple(levels))
    if key in known:
        levels = (known[key],)
    reasons = []
    for level in levels:
        try:
            server = Server(at_level(setup, level))
        except ServerFailed as error:
            if error.step == "preload":
                raise UsageError(
                    f"sandbox: preload={setup.preload}: {error}. Name in packages= what it is "
                    "a part of, or leave it out."
                ) from error
            reasons.append(f"level {level}: {error}")
            continue
        leak = "" if key in known or level < 2 else _leak(server, level)
        if not leak:
            known[key] = level
            _warn_below(level)
            return server, level
        server.close()
        reasons.append(f"level {level}: {leak}")
    raise SandboxUnavailable(
        f"sandbox: this machine can't hold a policy's code. {'; '.join(reasons)}. {WAYS_OUT}"
    )


def at_level(setup: Setup, level: int) -> Setup:
    """The same at another level."""
    return replace(setup, jail=replace(setup.jail, level=level))


def watch_script(child: Child, limits: Limits, patience: float) -> tuple[Ending, Output]:
    """Wait for a script's end, and let its process go."""
    with closing(child):
        output = Output(limits.output_kept)
        return Watch(child, limits, output, patience).run(), output


def _leak(server: Server, level: int) -> str:
    """What gets out, in words; empty if nothing does."""

    def run(code: str, limits: Limits) -> Result:
        try:
            child = server.begin(limits, code.encode())
        except ServerFailed as error:
            return broken(str(error), level)
        ending, output = watch_script(child, limits, server.setup.patience)
        return of_script(ending, output, limits, level)

    return probe(run, server.setup.preload)


@cache
def _known() -> dict[tuple[Setup, tuple[int, ...]], int]:
    """Levels that were found to hold in this process, by what was asked for."""
    return {}


def _warn_below(level: int) -> None:
    if level < 2:
        _warn_once()


@cache
def _warn_once() -> None:
    warnings.warn(UNSAFE, RuntimeWarning, stacklevel=2)
