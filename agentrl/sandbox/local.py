"""Local: fork servers of this machine, one at a time, made anew when one fails.

In    what a server shall be, at which levels
Out   children, from a server that was probed at the level it claims
Not   a second try of a call that was lost: only the next call gets a new server
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from functools import cache
from typing import Protocol

from agentrl.errors import UsageError
from agentrl.sandbox.call import Ending
from agentrl.sandbox.child import Child
from agentrl.sandbox.host import Server, ServerFailed, ServerGone, Setup
from agentrl.sandbox.result import Limits, Result
from agentrl.sandbox.strictest import at_level, strictest, watch_script
from agentrl.sandbox.verdict import broken, of_script


class Local:
    """The servers of one Sandbox."""

    def __init__(self, setup: Setup, levels: Sequence[int], slots: int) -> None:
        """Use the first of these levels that holds here; nothing is started yet."""
        self.setup = setup
        self.slots = threading.BoundedSemaphore(slots)
        """Held by each call and each cell while it runs."""
        self._slots = slots
        self._levels = levels
        self._lock = threading.Lock()
        self._server: Server | None = None
        self._level = 0
        self._closed = False
        inherit(self)

    def level(self) -> int:
        """The level that holds here; finds out at first use.

        Raises:
            SandboxUnavailable: none of them does.
        """
        if not self._level:
            self._running()
        return self._level

    def run(self, code: bytes, limits: Limits) -> Result:
        """Run a script."""
        level = self.level()
        with self.slots:
            try:
                child, server = self.begin(limits, code)
            except ServerFailed as error:
                return broken(str(error), level)
            ending, output = watch_script(child, limits, self.setup.patience)
        self.check(ending, server)
        return of_script(ending, output, limits, level)

    def begin(self, limits: Limits, code: bytes | None) -> tuple[Child, Server]:
        """A child and its server.

        Raises:
            ServerFailed: this call is lost.
        """
        server = self._running()
        try:
            return server.begin(limits, code), server
        except ServerGone:
            self._drop(server)
        except ServerFailed as error:
            if error.step == "server":
                self._drop(server)
            raise
        server = self._running()
        return server.begin(limits, code), server

    def check(self, ending: Ending, server: Server) -> None:
        """End a server that did not keep its word about a call."""
        if ending.silent:
            self._drop(server)

    def close(self) -> None:
        """End what runs."""
        with self._lock:
            self._closed = True
            server, self._server = self._server, None
        if server is not None:
            server.close()

    def forked(self) -> None:
        """This is now a copy of the process: what was inherited is its parent's."""
        self._lock, self.slots = threading.Lock(), threading.BoundedSemaphore(self._slots)
        server, self._server = self._server, None
        if server is not None:
            server.abandon()

    def _drop(self, server: Server) -> None:
        with self._lock:
            if self._server is server:
                self._server = None
        server.close()

    def _running(self) -> Server:
        with self._lock:
            if self._closed:
                raise UsageError("sandbox: it is closed. Make another.")
            if self._server is None and self._level:
                self._server = Server(at_level(self.setup, self._level))
            elif self._server is None:
                self._server, self._level = strictest(self.setup, self._levels)
            return self._server


class Inherited(Protocol):
    """What a copy of the process made by fork must let go of."""

    def forked(self) -> None:
        """This is now the copy: processes and locks are the original's."""
        ...


def inherit(one: Inherited) -> None:
    """Have it told when it finds itself in a copy of the process."""
    _survive_forks()
    _alive().add(one)


@cache
def _alive() -> weakref.WeakSet[Inherited]:
    return weakref.WeakSet()


@cache
def _survive_forks() -> None:
    os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    for one in list(_alive()):
        one.forked()
