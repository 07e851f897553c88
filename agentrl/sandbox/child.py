"""Child: one jailed process as the host sees it.

In    the host's ends of a pipe and two sockets; then a pid and its pidfd from the server
Out   signals to it, and its clocks, also while it is ending
Not   a guess at who has its number now: that is used only while it is known to live
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any


class Child:
    """One forked process."""

    def __init__(self, report: socket.socket, out: int, cells: socket.socket | None) -> None:
        """Take over the host's ends; a child with a socket for cells is a session's."""
        self.report = report
        self.out = out
        self.cells = cells
        self.pid = -1
        self.pidfd = -1
        self.started = 0.0
        # Another thread may end it just as it is let go, and its numbers become another's.
        self._lock = threading.RLock()
        self.idle_since: float | None = None
        self.expired = False

    def born(self, header: Mapping[str, Any], pidfd: int) -> None:
        """Take over what the server said of it."""
        self.pid, self.started, self.pidfd = header["pid"], header["started"], pidfd

    def signal(self, number: int) -> None:
        """Send a signal; one that has ended gets none."""
        with self._lock, suppress(ProcessLookupError):
            if self.pidfd >= 0:
                signal.pidfd_send_signal(self.pidfd, number)

    def kill(self) -> None:
        """End it, whatever it is doing."""
        self.signal(signal.SIGKILL)

    def ended(self) -> bool:
        """Whether it has ended."""
        return self.pidfd < 0 or readable(self.pidfd)

    def by_itself(self, seconds: float) -> bool:
        """Whether it has ended and its server, which lives, says so within so many seconds."""
        gone = self.pidfd >= 0 and readable(self.pidfd)
        if not gone or not readable(self.report.fileno(), seconds):
            return False
        try:
            return bool(self.report.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            return False

    def cpu(self) -> float | None:
        """Seconds of processor time of all its threads; None once it has ended."""
        try:
            # The clock of a process by its number, as clock_getcpuclockid(3) makes it.
            seconds = time.clock_gettime((~self.pid << 3) | 2)
        except OSError:
            return None
        return None if self.ended() else seconds

    def waited(self) -> float:
        """Seconds its main thread could have run but got no processor; 0 where unknown."""
        try:
            file = os.open(f"/proc/{self.pid}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            try:
                seconds = int(os.read(file, 100).split()[1]) / 1e9
            finally:
                os.close(file)
        except (OSError, ValueError, IndexError):
            return 0.0
        return 0.0 if self.ended() else seconds

    def sleep(self) -> None:
        """Stop it, threads and all, until it is woken."""
        with self._lock:
            self.signal(signal.SIGSTOP)
            self.idle_since = time.monotonic()

    def take(self) -> bool:
        """Have it sleep no more in the eyes of `expire`; whether it had not expired before."""
        with self._lock:
            self.idle_since = None
            return not self.expired

    def expire(self, now: float, ttl: float) -> None:
        """End it if it has slept for so many seconds."""
        with self._lock:
            if self.idle_since is not None and now - self.idle_since > ttl:
                self.expired = True
                self.kill()

    def close(self) -> None:
        """End it, and let go of it."""
        with self._lock:
            self.kill()
            self._forget()

    def abandon(self) -> None:
        """In a copy of the host made by fork: let go of it without ending it."""
        # Whoever held the lock is not in this copy.
        self._lock = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self.report.close()
        if self.cells is not None:
            self.cells.close()
        for fd in (self.out, self.pidfd):
            if fd >= 0:
                os.close(fd)
        self.out = self.pidfd = -1


def readable(fd: int, seconds: float = 0.0) -> bool:
    """Whether there is something to read, or an end, within so many seconds."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, 1e3 * seconds)))
