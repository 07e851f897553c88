"""Waves: the meeting point of episodes whose next turns are computed together.

In    the episodes that are played, their requests in whatever order they come
Out   a batch ordered by (turn, task, member), once every live episode asked or finished
Not   threads: everything here happens on one event loop
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from agentrl.errors import EngineError
from agentrl.policy import Completion, Request

Session = tuple[int, int]
Batch = Callable[[Sequence[Request]], Coroutine[Any, Any, Sequence[Completion]]]
_Waiter = asyncio.Future[Completion]


class Waves:
    """Collects requests; a batch depends on who asked, never on who asked first."""

    def __init__(self, run: Batch) -> None:
        """Remember what answers a batch: one completion per request, in its order."""
        self._run = run
        self._live: dict[Session, None] = {}
        self._waiting: dict[Session, tuple[Request, _Waiter]] = {}
        # The loop itself holds on to no task.
        self._running: set[asyncio.Future[Sequence[Completion]]] = set()

    @contextmanager
    def episodes(self, sessions: Sequence[Session]) -> Iterator[None]:
        """Declare who plays; whoever still waits at the end gets an error."""
        if self._live:
            raise EngineError(
                f"{len(self._live)} episodes are still being played on this engine. "
                "A wave waits for all of them. Play one cohort after the other."
            )
        self._live = dict.fromkeys(sessions)
        try:
            yield
        finally:
            self._live = {}
            left = [waiter for _, waiter in self._waiting.values()]
            self._waiting = {}
            _fail(left, EngineError("the cohort ended while this episode waited for its turn."))

    def finish(self, session: Session) -> None:
        """Wait for this episode no longer."""
        self._live.pop(session, None)
        self._start_if_complete()

    async def ask(self, request: Request) -> Completion:
        """Wait for the others, then for the answer."""
        session = request.session
        if session not in self._live:
            raise EngineError(
                f"episode {session} was not declared. A wave must know who plays. "
                "Ask inside `with engine.episodes(sessions)`, and before `finish`."
            )
        if session in self._waiting:
            raise EngineError(f"episode {session} asks twice at once. A turn has one request.")
        waiter: _Waiter = asyncio.get_running_loop().create_future()
        self._waiting[session] = (request, waiter)
        self._start_if_complete()
        try:
            return await waiter
        finally:
            if self._waiting.get(session) == (request, waiter):
                del self._waiting[session]

    def _start_if_complete(self) -> None:
        if not self._waiting or len(self._waiting) < len(self._live):
            return
        wave, self._waiting = self._waiting, {}
        ordered = sorted(wave.values(), key=lambda item: (item[0].turn, item[0].session))
        work = self._run([request for request, _ in ordered])
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda done: _tell([future for _, future in ordered], done))


def _tell(waiters: Sequence[_Waiter], done: asyncio.Future[Sequence[Completion]]) -> None:
    """Hand out what came of a wave: answers, the error, or that it was cancelled."""
    if done.cancelled():
        for waiter in waiters:
            waiter.cancel()
        return
    error = done.exception()
    if error is not None:
        _fail(waiters, error)
        return
    for waiter, completion in zip(waiters, done.result(), strict=True):
        if not waiter.done():
            waiter.set_result(completion)


def _fail(waiters: Sequence[_Waiter], error: BaseException) -> None:
    """Tell every waiter, each with an exception of its own."""
    kind = type(error) if isinstance(error, EngineError) else EngineError
    for waiter in waiters:
        if not waiter.done():
            own = kind(str(error))
            own.__cause__ = error
            waiter.set_exception(own)
