"""Threads for code that may block, as many as are needed at once.

In    work without arguments, from any event loop of the process
Out   its result, for whoever waits; a loop is not even blocked while threads start
Not   a way to stop a thread: one whose caller has left runs on, and is counted until it ends

A pool of a fixed size would be full of work that hangs sooner or later, and with one thread a
call the loop waits for each to start. Here a call only queues its work; a worker that finds
more work than idle workers starts the next one before it begins.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any

from agentrl.errors import EnvironmentFault, blame

MOST_LEFT = 1000
"""Threads of a process whose callers have left; beyond that nothing new is begun."""
IDLE = 30.0
"""Seconds that a worker waits for work before it ends."""

Settled = tuple[Any, Exception | None]


@dataclass(slots=True, eq=False)
class _Job:
    run: Callable[[], None]
    running: bool = False
    left: bool = False
    """Nobody waits for it."""


class Workers:
    """Daemon threads that take work from one queue."""

    def __init__(self, most_left: int = MOST_LEFT, idle: float = IDLE) -> None:
        """No thread is started yet."""
        self.most_left = most_left
        self.left = 0
        """Threads whose callers have left, and that are not back yet."""
        self._patience = idle
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        # Under the lock: work that is queued, workers that wait, whether one is being started.
        self._queued, self._idle, self._starting = 0, 0, False

    async def run(self, work: Callable[[], Any]) -> Any:
        """The result of `work`, run in a thread that sees this task's context.

        Raises:
            EnvironmentFault: Too many threads are left behind, or none can be started.
        """
        if self.left >= self.most_left:
            raise EnvironmentFault(
                f"{self.left} threads of tools run on although their time is up. Give what they "
                "wait for a time limit of its own, so that they end."
            )
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Settled] = loop.create_future()
        context = copy_context()

        def main() -> None:
            settled = _settled(lambda: context.run(work))
            # The loop may be closed when a thread that ran out of time comes back: nobody waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, done, settled)

        job = _Job(main)
        try:
            self._submit(job)
            value, error = await done
        finally:
            if not done.done() or done.cancelled():
                self._leave(job)
        if error is not None:
            raise error
        return value

    def _submit(self, job: _Job) -> None:
        with self._lock:
            self._queued += 1
            alone = self._must_start()
        self._jobs.put(job)
        if alone:
            with blame(EnvironmentFault, "no thread to run in"):
                self._start()

    def _must_start(self) -> bool:
        """Whether the caller, who holds the lock, is to start a worker."""
        alone = self._queued > self._idle and not self._starting
        self._starting = self._starting or alone
        return alone

    def _start(self) -> None:
        try:
            threading.Thread(target=self._main, name="agentrl-author", daemon=True).start()
        except BaseException:
            self._starting = False
            raise

    def _leave(self, job: _Job) -> None:
        with self._lock:
            job.left = True
            self.left += job.running

    def _main(self) -> None:
        with self._lock:
            self._starting = False
            self._idle += 1
        while (job := self._next()) is not None:
            if job.running:
                job.run()
            self._back(job)
            del job  # idle, it would keep what the work knew

    def _next(self) -> _Job | None:
        """The next piece of work; None where there was none for a while."""
        job = None
        while job is None:
            with suppress(Empty):
                job = self._jobs.get(timeout=self._patience)
            if job is None and self._may_end():
                return None
        with self._lock:
            self._queued -= 1
            self._idle -= 1
            job.running = not job.left
            alone = self._must_start()
        if alone:
            # Where there are no more threads, work waits for the next worker that is free.
            with suppress(RuntimeError):
                self._start()
        return job

    def _may_end(self) -> bool:
        with self._lock:
            # Work that counts on this worker may be on its way into the queue.
            spare = self._queued < self._idle
            self._idle -= spare
        return spare

    def _back(self, job: _Job) -> None:
        with self._lock:
            self._idle += 1
            self.left -= job.left and job.running
            job.running = False


def workers() -> Workers:
    """Those of this process; a forked one has none of its parent's threads."""
    return _of(os.getpid())


@cache
def _of(process: int) -> Workers:
    return Workers()


def _settle(done: asyncio.Future[Settled], settled: Settled) -> None:
    if not done.done():
        done.set_result(settled)


def _settled(work: Callable[[], Any]) -> Settled:
    """A thread has no caller, so everything is carried over to the one who waits."""
    try:
        return work(), None
    except Exception as error:
        return None, error
    except BaseException as error:
        return None, RuntimeError(f"it tried to end the program with {type(error).__name__}")
