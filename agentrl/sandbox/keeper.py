"""Keeper: the thread that starts a server, and stays for as long as the server lives.

In    a command; the children of the server, whose idle ones it ends
Out   the running process; it is reaped when it ends, and its children are ended with it
Not   a restart

The kernel ties a server's life to the *thread* that started it, not to the process: a server
started by a thread that ends, as those of tools do, would be killed with it.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
import weakref
from collections.abc import Sequence

from agentrl.sandbox.child import Child, readable

MOST_NAP = 30.0
"""Seconds between two looks for idle sessions."""


class Keeper:
    """A server's process, and its thread."""

    def __init__(self, ttl: float) -> None:
        """Keep sessions that have been idle for `ttl` seconds from staying for good."""
        self._children: weakref.WeakSet[Child] = weakref.WeakSet()
        self._lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self._ttl = ttl
        self._problem: BaseException | None = None
        self._born = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, command: Sequence[str], env: dict[str, str], fds: tuple[int, int, int]) -> None:
        """Start the server on its stdin, its stderr and its socket. OSError where it can't be."""
        self._thread = threading.Thread(
            target=self._run, args=(command, env, fds), name="agentrl-sandbox", daemon=True
        )
        self._thread.start()
        self._born.wait()
        if self._problem is not None:
            raise self._problem

    def add(self, child: Child) -> None:
        """Have a child looked after; when nobody else holds it any more it is forgotten."""
        with self._lock:
            self._children.add(child)

    def living(self) -> list[Child]:
        """The children that somebody holds."""
        with self._lock:
            return list(self._children)

    def abandon(self) -> None:
        """In a copy of the host made by fork: let go of what was inherited, end nothing."""
        for child in list(self._children):
            child.abandon()

    def end(self, seconds: float) -> None:
        """End the server and its children; wait until it is reaped, at most so long."""
        for child in self.living():
            child.kill()
        if self.process is not None:
            self.process.kill()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(seconds)

    def _run(self, command: Sequence[str], env: dict[str, str], fds: tuple[int, int, int]) -> None:
        told, errors, control = fds
        try:
            # Nothing here makes `subprocess` fork: a trainer of many gigabytes is never copied.
            process = subprocess.Popen(
                [*command, str(control)],
                stdin=told,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=env,
                cwd="/",
                pass_fds=[control],
                start_new_session=True,
            )
        except BaseException as error:
            self._problem = error
            return
        finally:
            self._born.set()
        self.process = process
        self._watch(process)

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        pidfd = os.pidfd_open(process.pid)
        while not readable(pidfd, min(MOST_NAP, self._ttl / 4)):
            now = time.monotonic()
            for child in self.living():
                child.expire(now, self._ttl)
        os.close(pidfd)
        process.wait()
        for child in self.living():
            child.kill()
