"""Watching one call: what is read, when it is stopped, how it ended.

In    a child that runs a script or one cell, and the limits of that
Out   Ending: facts of the host and of the server; the only word of the child is a cell's status
Not   a wait for the end of the pipe: a process that was left behind may hold it for good
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from agentrl.sandbox.child import Child
from agentrl.sandbox.interpreter import EXIT
from agentrl.sandbox.output import Output
from agentrl.sandbox.protocol import ProtocolError, close_all, decode, receive
from agentrl.sandbox.result import Limits, Status

GRACE = 1.0
"""Seconds from asking a cell to stop until its session is ended."""
CORES = os.cpu_count() or 1
CHUNK = 1 << 16
LONGEST = 4
"""Times the wall limit that a call may take where it waits for a processor: that time is not the
code's. It is bounded by what code can make itself wait, which is its own processor time and that of
the few calls beside it; a call that comes so far was kept waiting by others."""
LONGEST_WAIT = 3600.0
"""Seconds in one go; limits may be without end."""


@dataclass(slots=True)
class Ending:
    """What is known of how a call ended."""

    verdict: Status | None = None
    """What the host stopped it for."""
    overload: bool = False
    """Whether time ran out as it waited for a processor."""
    end: Mapping[str, Any] | None = None
    """The server's word on the end of the process; None while it lives or where the server died."""
    reply: Status | None = None
    """A cell's own word."""
    problem: str = ""
    """What failed in the sandbox."""
    silent: bool = False
    """Whether that was the server, which then can't be relied on."""


class Watch:
    """One call from its start to its end."""

    def __init__(
        self,
        child: Child,
        limits: Limits,
        output: Output,
        patience: float,
        token: str | None = None,
    ) -> None:
        """Watch a script, or the cell that was given this token."""
        self.child, self.limits, self.output = child, limits, output
        self.patience, self.token = patience, token
        self.ending = Ending()
        self.begun = child.started if token is None else time.monotonic()
        self.cpu_before = 0.0 if token is None else child.cpu() or 0.0
        self.waited_before = 0.0 if token is None else child.waited()
        self.cpu_at = self.begun + limits.cpu / CORES
        """When next to look at the child's clock."""
        self.deadline = self.begun + limits.wall
        self.stopping = 0
        """0 runs, 1 was asked to stop, 2 was killed or has ended: the server's word is due."""
        self.poll = select.poll()
        self.poll.register(child.out, select.POLLIN)
        self.poll.register(child.report, select.POLLIN)
        self.poll.register(child.pidfd, select.POLLIN)
        if child.cells is not None:
            self.poll.register(child.cells, select.POLLIN)

    def run(self) -> Ending:
        """Wait for the end."""
        ending = self.ending
        while ending.end is None and ending.reply is None and not ending.problem:
            left = self.next_look() - time.monotonic()
            ready = self.poll.poll(1e3 * min(max(0.0, left), LONGEST_WAIT))
            for fd, _ in ready:
                try:
                    self.hear(fd)
                except (OSError, ValueError):
                    if self.child.out >= 0:
                        raise
                    # Another thread closed it, or the interpreter ends.
                    self.fail("it was closed in the midst of a call")
            if self.output.written > self.limits.output_most and self.stopping < 2:
                self.stop("output_limit", signal.SIGKILL)
            now = time.monotonic()
            if now >= self.deadline:
                self.late()
            elif now >= self.cpu_at and not self.stopping:
                self.look_at_clock(now)
        self.drain()
        return ending

    def next_look(self) -> float:
        """When to wake if nothing is heard."""
        return self.deadline if self.stopping else min(self.deadline, self.cpu_at)

    def hear(self, fd: int) -> None:
        """Something came."""
        child = self.child
        if fd == child.out:
            if self.read() == b"":
                self.poll.unregister(fd)
        elif fd == child.report.fileno():
            self.hear_server()
        elif fd == child.pidfd:
            self.poll.unregister(fd)
            self.await_server()
        else:
            self.hear_cell()

    def read(self) -> bytes | None:
        """What is in the pipe: None if nothing is, b"" at its end."""
        try:
            data = os.read(self.child.out, CHUNK)
        except BlockingIOError:
            return None
        self.output.feed(data)
        return data

    def drain(self) -> None:
        """What was written before the end and is not read yet, up to what may be written."""
        # Another thread may have closed it meanwhile.
        with suppress(OSError):
            while self.output.written <= self.limits.output_most and self.read():
                pass

    def hear_server(self) -> None:
        """How the process ended, or that nobody will say."""
        frame = None
        with suppress(OSError, ProtocolError):
            frame = receive(self.child.report, socket.MSG_DONTWAIT)
        if frame is None:
            self.child.kill()
            self.fail("the fork server ended during the call")
            return
        close_all(frame.fds)
        if "problem" in frame.header:
            self.ending.problem = str(frame.header["problem"])
        else:
            self.ending.end = frame.header

    def hear_cell(self) -> None:
        """A reply; anything else on that socket ends the session, as only code can have sent it."""
        cells = cast(socket.socket, self.child.cells)
        status = None
        with suppress(OSError, ProtocolError):
            header = decode(cells.recv(1024, socket.MSG_DONTWAIT)).header
            said = header.get("status")
            if header.get("token") == self.token and isinstance(said, str) and said in EXIT:
                status = cast(Status, said)
        if status is None:
            self.poll.unregister(cells)
            self.stop("killed", signal.SIGKILL)
        else:
            self.ending.reply = status

    def look_at_clock(self, now: float) -> None:
        """Stop it if it has had its share of the processor, else say when to look again."""
        used = self.child.cpu()
        left = self.limits.cpu - (0.0 if used is None else used - self.cpu_before)
        if left <= 0:
            self.stop("timeout_cpu", signal.SIGINT if self.token is not None else signal.SIGKILL)
        else:
            # Threads may use several processors at once.
            self.cpu_at = now + max(0.01, left / CORES)

    def late(self) -> None:
        """The deadline passed: of the call, of a cell asked to stop, or of the server's word."""
        if self.stopping == 2:
            self.fail("the fork server did not say how the call ended")
        elif self.stopping == 1:
            self.stop(cast(Status, self.ending.verdict), signal.SIGKILL)
        elif not self.excused():
            self.stop("timeout_wall", signal.SIGKILL if self.token is None else signal.SIGINT)

    def excused(self) -> bool:
        """Whether it waited for a processor meanwhile, and gets that time on top."""
        wall, now = self.limits.wall, time.monotonic()
        waited = self.child.waited() - self.waited_before
        self.ending.overload = now - self.begun >= LONGEST * wall
        self.deadline = self.begun + min(wall + waited, LONGEST * wall)
        return now < self.deadline

    def stop(self, verdict: Status, number: int) -> None:
        """Stop it; the first reason is the one that counts."""
        self.ending.verdict = self.ending.verdict or verdict
        self.child.signal(number)
        if number == signal.SIGKILL:
            self.await_server()
        else:
            self.stopping, self.deadline = 1, time.monotonic() + GRACE

    def fail(self, problem: str) -> None:
        """The server did not do its part."""
        self.ending.problem, self.ending.silent = problem, True

    def await_server(self) -> None:
        """The process is ending: how, the server must say soon."""
        if self.stopping < 2:
            self.stopping, self.deadline = 2, time.monotonic() + self.patience


def ask_cell(child: Child, number: int, token: str, code: bytes) -> bool:
    """Hand a cell to a session; False where it does not take it, which is its own doing."""
    header = json.dumps({"cell": number, "token": token}).encode()
    cells = cast(socket.socket, child.cells)
    try:
        cells.recv(1024, socket.MSG_DONTWAIT)
    except BlockingIOError:
        with suppress(OSError):
            cells.send(header + b"\n" + code, socket.MSG_DONTWAIT)
            return True
    except OSError:
        pass
    return False
