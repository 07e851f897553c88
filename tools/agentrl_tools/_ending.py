"""Ending: what ended code before its own end, in words for a policy.

In    the result of a sandbox, and the limits it ran under
Out   words, or EnvironmentFault where nobody's code is to blame
Not   a word on errors of the code itself: their traceback is in what it printed
"""

from __future__ import annotations

from typing import Final

from agentrl.errors import EnvironmentFault
from agentrl.sandbox import Limits, Result

_ENDINGS: Final = {
    "timeout_cpu": "ended after {limits.cpu:g} s of processor time",
    "timeout_wall": "ended after {limits.wall:g} s",
    "memory": "ended: it needed more than {mebibytes} MiB of memory",
    "output_limit": "ended: it printed more than {written} MiB",
    "killed": "ended by a signal",
}


def ending(result: Result, limits: Limits) -> str:
    """What ended the code before its own end; empty where nothing did.

    Raises:
        EnvironmentFault: The sandbox failed, or the machine was too busy to tell.
    """
    if result.status == "sandbox_failure":
        raise EnvironmentFault(f"sandbox: {result.problem}. Its call is lost.")
    if result.host_overload:
        raise EnvironmentFault(
            f"sandbox: code waited for a processor until far beyond {limits.wall:g} s. "
            "Play fewer episodes at once."
        )
    return _ENDINGS.get(result.status, "").format(
        limits=limits, mebibytes=limits.memory >> 20, written=limits.output_most >> 20
    )
