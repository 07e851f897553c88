"""From what is known of a call to its Result.

In    code before it runs; an Ending after it ran
Out   why the code can't be run, in words; a Result whose status rests on the host and the kernel
Not   what the code says of itself, but where nothing else could know: ok, error, out of memory
"""

from __future__ import annotations

import signal

from agentrl.sandbox.call import Ending
from agentrl.sandbox.interpreter import EXIT
from agentrl.sandbox.output import Output
from agentrl.sandbox.result import MAX_CODE, Limits, Result, Status

NEARLY = 0.9
"""Part of the processor time from which on a kill by the kernel was for it."""
_BY_CODE: dict[int, Status] = {EXIT["ok"]: "ok", EXIT["memory"]: "memory"}


def readable_code(code: object) -> tuple[bytes, str]:
    """The bytes to run, or why there are none."""
    if not isinstance(code, str):
        return b"", f"The code is no text but {type(code).__name__}."
    try:
        data = code.encode()
    except UnicodeEncodeError as error:
        return b"", f"The code is no valid text: half a surrogate pair at character {error.start}."
    if len(data) > MAX_CODE:
        return b"", f"The code has {len(data)} bytes; {MAX_CODE} are the most."
    if b"\0" in data:
        return b"", f"The code has a NUL character, at byte {data.index(0)}."
    return data, ""


def refused(why: str, level: int, backend: str = "local") -> Result:
    """The Result of code that can't be run."""
    return Result("error", f"{why}\n", 0.0, level, backend=backend)


def broken(problem: str, level: int, *, lost: bool = False) -> Result:
    """The Result of a call that the sandbox failed."""
    return Result("sandbox_failure", "", 0.0, level, lost=lost, problem=problem)


def of_script(ending: Ending, output: Output, limits: Limits, level: int) -> Result:
    """The Result of a script."""
    if ending.end is None:
        return broken(ending.problem, level)
    end = ending.end
    status = status_of(ending, end["cpu"], limits)
    return Result(
        status,
        output.text(),
        end["ended"] - end["started"],
        level,
        cpu=end["cpu"],
        cut=output.cut,
        signal=end["signal"],
        host_overload=status == "timeout_wall" and ending.overload,
    )


def of_cell(
    ending: Ending, output: Output, limits: Limits, level: int, spent: tuple[float, float]
) -> Result:
    """The Result of a cell that took so many seconds, and so many of the processor."""
    if ending.problem:
        return broken(ending.problem, level, lost=True)
    status = status_of(ending, spent[1], limits)
    return Result(
        status,
        output.text(),
        spent[0],
        level,
        cpu=spent[1],
        cut=output.cut,
        signal=None if ending.end is None else ending.end["signal"],
        host_overload=status == "timeout_wall" and ending.overload,
        lost=ending.end is not None,
    )


def status_of(ending: Ending, cpu: float, limits: Limits) -> Status:
    """What the end of a process, or the reply of a cell, comes to."""
    number = None if ending.end is None else ending.end["signal"]
    if ending.verdict == "output_limit":
        return "output_limit"
    # A process that left by itself in the moment of the kill was not stopped.
    if ending.verdict is not None and (ending.end is None or number == signal.SIGKILL):
        return ending.verdict
    if ending.end is None:
        return ending.reply or "error"
    if number is None:
        return _BY_CODE.get(ending.end["exit"], "error")
    by_time = number in (signal.SIGXCPU, signal.SIGKILL) and cpu >= NEARLY * limits.cpu
    return "timeout_cpu" if by_time else "killed"
