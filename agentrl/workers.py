"""Threads for code that may block, as many as are needed at once.

In    work without arguments, from any event loop of the process
Out   its result, for whoever waits; the loop itself waits for nothing
Not   a way to stop a thread: one whose caller has left runs on, and is counted until it ends

A pool of a fixed size would be full of work that hangs sooner or later, and with one thread a
call the loop waits for each to start. Here a call only hands over its work; a worker that finds
more of it in the queue starts the next worker before it begins.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any

from agentrl.errors import EnvironmentFault, blame

MOST_LEFT = 1000
"""Threads of a process whose callers have left; beyond that nothing new is begun."""
MOST_LEFT_BY_ONE = 8
"""Threads of one episode's tools whose callers have left; beyond that its calls are refused."""
IDLE = 30.0
"""Seconds that a worker waits for work before it ends."""

Settled = tuple[Any, Exception | None]


@dataclass(slots=True, eq=False)
class _Job:
    run: Callable[[], None]
    share: Share | None
    wanted: bool = True
    """Whether somebody waits for it."""
    over: bool = False


@dataclass(slots=True, eq=False)
class Share:
    """The threads that one owner of work may leave behind: far fewer than the process may."""

    most: int = MOST_LEFT_BY_ONE
    _left: set[_Job] = field(default_factory=set)

    @property
    def left(self) -> int:
        """Pieces of its work whose callers have left, and that are not over yet."""
        return len(self._left)

    @property
    def full(self) -> bool:
        """Whether no more of its work should be begun."""
        return self.left >= self.most


class Workers:
    """Daemon threads, each with an inbox; the one that came home last is sent out first.

    There is no lock: with a thousand threads that contend for the interpreter, one that is
    stopped while it holds a lock stops the loop. Steps of a deque and of a set are whole by
    themselves, and their order below is what counts.
    """

    def __init__(self, most_left: int = MOST_LEFT, idle: float = IDLE) -> None:
        """No thread is started yet."""
        self.most_left = most_left
        self._patience = idle
        self._idle: deque[SimpleQueue[_Job]] = deque()
        """Inboxes of workers that wait."""
        self._queued: deque[_Job] = deque()
        """Work that no worker was idle for."""
        self._starting = False
        """A worker is on its way, and will look for queued work."""
        self._left: set[_Job] = set()

    @property
    def left(self) -> int:
        """Pieces of work whose callers have left, and that are not over yet."""
        return len(self._left)

    async def run(self, work: Callable[[], Any], share: Share | None = None) -> Any:
        """The result of `work`, run in a thread that sees this task's context.

        Args:
            work: What is called.
            share: What a thread that is left behind counts against, beside the process's own.

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

        job = _Job(main, share)
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
        try:
            inbox = self._idle.pop()
        except IndexError:
            # First into the queue, then the look: a worker that starts looks the other way round.
            self._queued.append(job)
            with blame(EnvironmentFault, "no thread to run in"):
                self._start()
        else:
            inbox.put(job)

    def _start(self) -> None:
        if self._starting:
            return
        self._starting = True
        try:
            threading.Thread(target=self._main, name="agentrl-author", daemon=True).start()
        except BaseException:
            self._starting = False
            raise

    def _leave(self, job: _Job) -> None:
        job.wanted = False
        self._left.add(job)
        if job.share is not None:
            job.share._left.add(job)
        if job.over:
            self._back(job)

    def _back(self, job: _Job) -> None:
        self._left.discard(job)
        if job.share is not None:
            job.share._left.discard(job)

    def _main(self) -> None:
        inbox: SimpleQueue[_Job] = SimpleQueue()
        self._starting = False
        while (job := self._next(inbox)) is not None:
            if self._queued:
                # Where there are no more threads, work waits for the next worker that is free.
                with suppress(RuntimeError):
                    self._start()
            if job.wanted:
                job.run()
            job.over = True
            self._back(job)
            del job  # idle, it would keep what the work knew

    def _next(self, inbox: SimpleQueue[_Job]) -> _Job | None:
        """The next piece of work; None where there was none for a while."""
        with suppress(IndexError):
            return self._queued.popleft()
        self._idle.append(inbox)
        with suppress(Empty):
            return inbox.get(timeout=self._patience)
        try:
            self._idle.remove(inbox)
        except ValueError:
            return inbox.get()  # it was picked just now, and work is on its way
        return None


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
