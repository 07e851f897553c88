"""Session: cells that share their variables, in one process that stands still between them.

In    cells, one at a time
Out   a Result for each, which says when the variables are gone
Not   a checkpoint: what a cell did before it was ended stays undone
"""

from __future__ import annotations

import secrets
import signal
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

from agentrl.errors import UsageError
from agentrl.sandbox.call import Ending, Watch, ask_cell
from agentrl.sandbox.child import Child
from agentrl.sandbox.host import Server, ServerFailed
from agentrl.sandbox.local import Local, inherit
from agentrl.sandbox.output import Output
from agentrl.sandbox.result import Limits, Result
from agentrl.sandbox.verdict import broken, of_cell, readable_code, refused

BACKSTOP = 24 * 3600.0
"""Seconds of processor time of a whole session; the host keeps the limit of each cell."""


class Session:
    """What a notebook is: each cell finds the variables of those before it.

    A cell that ends its process, or has to be killed, loses them (`lost`); the next one begins
    anew and says so (`restarted`), as does one that comes after the session was idle too long.
    """

    def __init__(self, local: Local, limits: Limits, owner: object = None) -> None:
        """Start one, asleep; `owner` lives at least as long."""
        self._local = local
        self._limits = limits
        self._owner = owner
        self._lock = threading.Lock()
        self._held = _Held()
        self._cells = 0
        self._closed = False
        self._inherited = False
        """Whether this is a copy, made by fork, of another process's session."""
        self._finalizer = weakref.finalize(self, self._held.release)
        inherit(self)
        # What fails here is said by the first cell, which tries again.
        with suppress(ServerFailed):
            self._started()[0].sleep()

    def run(self, cell: str, *, limits: Limits | None = None) -> Result:
        """Run a cell; the value of an expression at its end is shown, as in a notebook.

        Args:
            cell: Python.
            limits: of this cell. Those on memory, threads and files are the session's for good.
        """
        level = self._local.level()
        data, why = readable_code(cell)
        with self._lock:
            self._check_open()
            if why:
                return refused(why, level)
            with self._local.slots:
                # It may have been closed while this cell waited for a place.
                self._check_open()
                try:
                    return self._run(data, limits or self._limits, level)
                except BaseException:
                    self._held.release()
                    raise

    def close(self) -> None:
        """End it, and the cell that runs in it, if one does."""
        self._closed = True
        child = self._held.child
        if child is not None:
            child.kill()
        with self._lock:
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

    def forked(self) -> None:
        """This is now in a copy of the process: the session is the original's."""
        self._lock, self._inherited = threading.Lock(), True
        child, self._held.child = self._held.child, None
        if child is not None:
            child.abandon()

    def _check_open(self) -> None:
        if self._inherited:
            raise UsageError("session: it belongs to the process that began it. Begin another.")
        if self._closed:
            raise UsageError("session: it is closed. Begin another.")

    def _run(self, code: bytes, limits: Limits, level: int) -> Result:
        self._bury()
        restarted = self._held.child is None and self._cells > 0
        try:
            child, server = self._started()
            # It may have ended since it was looked at, by its own doing as well.
            if child.ended() and child.by_itself(self._local.setup.patience):
                self._held.release()
                restarted = self._cells > 0
                child, server = self._started()
        except ServerFailed as error:
            return broken(str(error), level, lost=restarted)
        if child.ended():
            self._held.release()
            self._cells += 1
            return broken("the session's process ended while it was idle", level, lost=True)
        self._cells += 1
        output = Output(limits.output_kept)
        ending, spent = self._watch(child, code, limits, output)
        if ending.reply is None or ending.verdict == "output_limit":
            self._held.release()
        self._local.check(ending, server)
        return replace(of_cell(ending, output, limits, level, spent), restarted=restarted)

    def _bury(self) -> None:
        """Let go of a process that has ended by itself.

        What a cell left behind may end it between two cells: that is its doing, and no fault of
        the sandbox, or code could choose that its episode does not count.
        """
        held = self._held.child
        if held is not None and (not held.take() or held.by_itself(self._local.setup.patience)):
            self._held.release()

    def _watch(
        self, child: Child, code: bytes, limits: Limits, output: Output
    ) -> tuple[Ending, tuple[float, float]]:
        """One cell: how it ended, and its seconds by the clock and of the processor."""
        # No code knows the token of a later cell, so none can answer for it.
        token = secrets.token_hex(8)
        watch = Watch(child, limits, output, self._local.setup.patience, token)
        if not ask_cell(child, self._cells, token, code):
            watch.stop("killed", signal.SIGKILL)
        child.signal(signal.SIGCONT)
        ending = watch.run()
        seconds = time.monotonic() - watch.begun
        child.sleep()
        watch.drain()
        if ending.end is not None:
            used = float(ending.end["cpu"])
        else:
            used = child.cpu() or watch.cpu_before
        return ending, (seconds, used - watch.cpu_before)

    def _started(self) -> tuple[Child, Server]:
        """Its process, which is begun if there is none."""
        if self._held.child is None or self._held.server is None:
            limits = replace(self._limits, cpu=BACKSTOP)
            self._held.child, self._held.server = self._local.begin(limits, None)
        return self._held.child, self._held.server


class _Held:
    """The process of a session, which is let go with it."""

    def __init__(self) -> None:
        self.child: Child | None = None
        self.server: Server | None = None

    def release(self) -> None:
        """End it."""
        child, self.child, self.server = self.child, None, None
        if child is not None:
            child.close()
