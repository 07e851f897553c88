"""The host's end of a fork server: start it, ask it for children, end it.

In    what a server shall be; then limits and code, from any thread
Out   Child; ServerFailed where the server did not do its part in time
Not   a repair: a server that failed is ended, and whoever asked makes another
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import agentrl
from agentrl.sandbox.child import Child, readable
from agentrl.sandbox.jail import Jail
from agentrl.sandbox.keeper import Keeper
from agentrl.sandbox.protocol import Frame, ProtocolError, receive, send
from agentrl.sandbox.result import Limits

START = 120.0
"""Seconds a server may take to start and to import what is preloaded."""
PATIENCE = 10.0
"""Seconds a server may take to answer: far beyond what a fork takes on a busy machine."""
ENVIRONMENT = {
    "HOME": "/scratch/work",
    "LANG": "C.UTF-8",
    "MALLOC_ARENA_MAX": "2",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "TMPDIR": "/scratch/work",
    "TZ": "UTC",
}
"""All that a server and its children find in their environment."""
_MAIN = "import sys; sys.path.insert(0, {!r}); from agentrl.sandbox.server import main; main()"


class ServerFailed(Exception):
    """A server did not come up, answer or stay alive."""

    def __init__(self, problem: str, step: str = "server") -> None:
        """Note what happened, and at which step: jail, preload or server."""
        super().__init__(problem)
        self.step = step


class ServerGone(ServerFailed):
    """It had ended before it was asked: nothing was lost by asking."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a server shall be."""

    jail: Jail
    preload: tuple[str, ...] = ()
    """Modules that children find imported."""
    ttl: float = 1800.0
    """Seconds a session may be idle before it is ended."""
    patience: float = PATIENCE


class Server:
    """A fork server that runs; any number of threads may use it."""

    def __init__(self, setup: Setup) -> None:
        """Start it.

        Raises:
            ServerFailed: it did not come up; `step` says at what.
        """
        self.setup = setup
        self._closing = threading.Lock()
        self._errors = os.memfd_create("agentrl-sandbox-errors")
        self._keeper = Keeper(setup.ttl)
        self._control, theirs = _socketpair()
        try:
            with theirs:
                self._start(theirs)
            self._await_ready()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The server's process."""
        process = self._keeper.process
        return -1 if process is None else process.pid

    def begin(self, limits: Limits, code: bytes | None) -> Child:
        """Have a child forked; it runs `code`, or is a session where there is none.

        Raises:
            ServerGone: the server had ended before.
            ServerFailed: there is no child, or none that answers for itself.
        """
        with ExitStack() as theirs:
            try:
                child, fds = _ends(theirs, session=code is None)
            except OSError as error:
                raise ServerFailed(f"no more files can be opened here: {error}", "host") from error
            try:
                if code is not None:
                    child.report.send(code + b"\n")
                self._ask(limits, fds)
                theirs.close()
                self._await_birth(child)
            except BaseException:
                child.close()
                raise
        self._keeper.add(child)
        return child

    def close(self) -> None:
        """End the server and all its children, and wait until it is gone."""
        self._keeper.end(self.setup.patience)
        with self._closing:
            self._control.close()
            if self._errors >= 0:
                os.close(self._errors)
                self._errors = -1

    def abandon(self) -> None:
        """In a copy of the host made by fork: close what was inherited, end nothing."""
        self._control.close()
        self._keeper.abandon()

    def failure(self, problem: str, step: str = "server") -> ServerFailed:
        """The server can't be relied on: end it, and say why."""
        with self._closing:
            said = b"" if self._errors < 0 else os.pread(self._errors, 1 << 16, 0)
        last = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        self.close()
        return ServerFailed(f"{problem}{': ' if last else ''}{last}", step)

    def _start(self, theirs: socket.socket) -> None:
        home = str(Path(agentrl.__file__).parents[1])
        asked = {"jail": asdict(self.setup.jail), "preload": self.setup.preload, "home": home}
        # In memory, not through a pipe: writing never waits for a server that does not read.
        told = os.memfd_create("agentrl-sandbox-setup")
        try:
            with open(told, "w", closefd=False) as file:
                json.dump(asked, file)
            os.lseek(told, 0, os.SEEK_SET)
            command = [sys.executable, "-s", "-S", "-P", "-c", _MAIN.format(home)]
            self._keeper.start(command, ENVIRONMENT, (told, self._errors, theirs.fileno()))
        except OSError as error:
            raise ServerFailed(f"can't start {sys.executable}: {error}") from error
        finally:
            os.close(told)

    def _await_ready(self) -> None:
        frame = self._answer(self._control, START)
        if "ready" not in frame.header:
            raise self.failure(str(frame.header.get("problem")), str(frame.header.get("step")))

    def _ask(self, limits: Limits, fds: list[int]) -> None:
        try:
            self._control.settimeout(self.setup.patience)
            send(self._control, {"limits": asdict(limits)}, fds=fds)
        except TimeoutError:
            raise self.failure("the fork server takes no more requests") from None
        except OSError as error:
            self.close()
            raise ServerGone(f"the fork server had ended: {error}") from error

    def _await_birth(self, child: Child) -> None:
        frame = self._answer(child.report, self.setup.patience)
        if "pid" not in frame.header or len(frame.fds) != 1:
            raise ServerFailed(str(frame.header.get("problem", "no pid came")), "jail")
        child.born(frame.header, frame.fds[0])

    def _answer(self, sock: socket.socket, seconds: float) -> Frame:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not readable(sock.fileno(), left):
            pass
        frame = None
        if readable(sock.fileno()):
            with suppress(OSError, ProtocolError):
                frame = receive(sock, socket.MSG_DONTWAIT)
            if frame is None:
                raise self.failure("the fork server ended before it answered")
            return frame
        raise self.failure(f"the fork server did not answer within {seconds:g} seconds")


def _ends(theirs: ExitStack, *, session: bool) -> tuple[Child, list[int]]:
    """A child that is not born yet, and what it is to be given."""
    with ExitStack() as ours:
        report, their_report = _socketpair()
        ours.enter_context(report)
        theirs.enter_context(their_report)
        out, their_out = os.pipe()
        ours.callback(os.close, out)
        theirs.callback(os.close, their_out)
        os.set_blocking(out, False)
        child, fds = Child(report, out, None), [their_report.fileno(), their_out]
        if session:
            child.cells, their_cells = _socketpair()
            fds.append(theirs.enter_context(their_cells).fileno())
        ours.pop_all()
    return child, fds


def _socketpair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
