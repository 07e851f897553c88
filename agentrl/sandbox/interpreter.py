"""Running code in the child: a script in a fresh `__main__`, or the cells of a session.

In    code as bytes, and a process that is already jailed
Out   text on descriptors 1 and 2; how it went as an exit code, or as a reply to each cell
Not   trusted: from the first line of the code on, this process belongs to the code
"""

from __future__ import annotations

import ast
import atexit
import builtins
import io
import json
import linecache
import os
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agentrl.sandbox.result import MAX_CODE

MAX_LINE = 2000
"""Characters of one line of a traceback, which quotes lines of code whole."""
EXIT = {"ok": 0, "error": 1, "memory": 86}
"""Exit codes by status. Code may leave with any of them: that says how it went, nothing more."""


def run_script(code: bytes) -> int:
    """Run a script to its end, threads and atexit handlers included; its exit code."""
    _open_streams()
    space = _fresh_main()
    status = _outcome(lambda: exec(_compile(code, "main.py"), space))
    late = _outcome(_wind_up)
    _flush()
    return EXIT[status if status != "ok" else late]


def run_cells(fd: int) -> int:
    """Run the cells that come in over `fd`, one after the other, until it is closed."""
    _open_streams()
    cells = _Cells()
    signal.signal(signal.SIGINT, cells.interrupt)
    while data := os.read(fd, 2 * MAX_CODE):
        line, _, code = data.partition(b"\n")
        asked = json.loads(line)
        status = cells.run(code, asked["cell"])
        _flush()
        os.write(fd, json.dumps({"token": asked["token"], "status": status}).encode() + b"\n")
    return 0


class _Cells:
    """Cells share one `__main__`."""

    def __init__(self) -> None:
        self.space = _fresh_main()
        self.running = False

    def interrupt(self, *_: object) -> None:
        """The host's word that time is up; between cells it comes too late to matter."""
        if self.running:
            raise KeyboardInterrupt

    def run(self, code: bytes, number: int) -> str:
        # The cell before may have changed what becomes of the host's signal.
        signal.signal(signal.SIGINT, self.interrupt)
        status = _outcome(lambda: self._evaluate(code, f"cell-{number}.py"))
        self.running = False
        return status

    def _evaluate(self, code: bytes, name: str) -> None:
        try:
            self.running = True
            body, last = _split(code, name)
            exec(body, self.space)
            if last is not None:
                value = eval(last, self.space)
                if value is not None:
                    self.space["_"] = value
                    sys.stdout.write(f"{value!r}\n")
        finally:
            self.running = False


def _split(code: bytes, name: str) -> tuple[types.CodeType, types.CodeType | None]:
    """A cell, and the expression at its end if there is one: a notebook shows its value."""
    tree: ast.Module = _compile(code, name, ast.PyCF_ONLY_AST)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        return compile(tree, name, "exec", dont_inherit=True), None
    del tree.body[-1]
    shown = compile(ast.Expression(last.value), name, "eval", dont_inherit=True)
    return compile(tree, name, "exec", dont_inherit=True), shown


class _Uncompiled(Exception):
    """The code is no Python; its cause says why."""


def _compile(code: bytes, name: str, flags: int = 0) -> Any:
    text = code.decode()
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    try:
        return compile(text, name, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise _Uncompiled from error


def _outcome(work: Callable[[], object]) -> str:
    """How a piece of the code's own work ends, told on stderr where it ends badly."""
    try:
        work()
    except SystemExit as error:
        return _left(error)
    except _Uncompiled as error:
        _tell(error.__cause__)
        return "error"
    except MemoryError as error:
        _tell(error)
        return "memory"
    except BaseException as error:
        _tell(error)
        return "error"
    return "ok"


def _left(error: SystemExit) -> str:
    """What `sys.exit` asked for: nothing or 0 is well, a text is told."""
    if error.code is None or error.code == 0:
        return "ok"
    if not isinstance(error.code, int):
        with suppress(BaseException):
            sys.stderr.write(f"{error.code}\n")
    return "error"


def _tell(error: BaseException | None) -> None:
    """A traceback as Python writes it, without the frames of this file, no line too long."""
    if error is None:
        return
    try:
        told = traceback.TracebackException.from_exception(error)
        _leave_out_own(told)
        lines = "".join(told.format()).splitlines()
        sys.stderr.write("".join(f"{_short(line)}\n" for line in lines))
    except BaseException:
        # Formatting calls methods of the code's own exceptions.
        with suppress(BaseException):
            sys.stderr.write(f"{type(error).__name__} (it can't be shown)\n")


def _leave_out_own(told: traceback.TracebackException) -> None:
    waiting = [told]
    for one in waiting:
        one.stack[:] = [frame for frame in one.stack if frame.filename != __file__]
        around = (one.__cause__, one.__context__, *(one.exceptions or ()))
        waiting += [other for other in around if other is not None]


def _short(line: str) -> str:
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} [... cut]"


def _fresh_main() -> dict[str, Any]:
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main.__dict__


def _open_streams() -> None:
    """Text on both streams in the order it is written: one buffer stands behind both."""
    both = io.BufferedWriter(io.FileIO(1, "w", closefd=False))
    for name in ("stdout", "stderr"):
        stream = io.TextIOWrapper(
            both, "utf-8", "backslashreplace", line_buffering=True, write_through=True
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115


def _flush() -> None:
    """What is still held back; the code may have closed or replaced its streams."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__):
        with suppress(BaseException):
            if stream is not None:
                stream.flush()


def _wind_up() -> None:
    """What Python does at a script's end."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
