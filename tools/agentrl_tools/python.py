"""Python: what a policy's code did, in words for that policy, and the sandbox that all share.

In    the result of a sandbox
Out   ToolResult, with the level of isolation as a metric; EnvironmentFault where nobody's code
      is to blame
Not   a grader: what code prints is for the policy to read, and nothing is decided by it
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Final

from agentrl.errors import EnvironmentFault
from agentrl.sandbox import Limits, Result, Sandbox, Session
from agentrl.tooling import ToolResult

__all__ = ["Limits", "Result", "Sandbox", "Session", "shared", "told"]

_ENDINGS: Final = {
    "timeout_cpu": "ended after {limits.cpu:g} s of processor time",
    "timeout_wall": "ended after {limits.wall:g} s",
    "memory": "ended: it needed more than {mebibytes} MiB of memory",
    "output_limit": "ended: it printed more than {written} MiB",
    "killed": "ended by a signal",
}
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


def ending(result: Result, limits: Limits) -> str:
    """What ended the code before its own end; empty where nothing did.

    Raises:
        EnvironmentFault: The sandbox failed, or the machine was too busy to tell.
    """
    if result.status == "sandbox_failure":
        raise EnvironmentFault(f"sandbox: {result.problem}. Its call is lost.")
    if result.host_overload:
        raise EnvironmentFault(
            f"sandbox: code waited for a processor for most of {limits.wall:g} s. "
            "Play fewer episodes at once."
        )
    return _ENDINGS.get(result.status, "").format(
        limits=limits, mebibytes=limits.memory >> 20, written=limits.output_most >> 20
    )


def told(result: Result, limits: Limits | None = None) -> ToolResult:
    """What a policy reads of a result: all that was printed, and why it ended early.

    Raises:
        EnvironmentFault: The sandbox failed, or the machine was too busy to tell.
    """
    why = ending(result, limits or Limits())
    notes = [why] * bool(why) + ["variables of earlier code are gone"] * _forgot(result)
    parts = [result.stdout.rstrip("\n"), f"[{'; '.join(notes)}]" if notes else ""]
    words = "\n".join(part for part in parts if part) or "(nothing was printed)"
    return ToolResult(
        words, metrics={"sandbox_level": float(result.level)}, is_error=result.status != "ok"
    )


def _forgot(result: Result) -> bool:
    return result.lost or result.restarted
