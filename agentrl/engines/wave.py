"""Waves: the meeting point of episodes whose next turns are computed together.

In    the episodes that are played, their requests in whatever order they come
Out   a batch ordered by (turn, task, member), once every live episode asked or finished
Not   threads: everything here happens on one event loop
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from agentrl.errors import EngineError
from agentrl.policy import Completion, Request

Session = tuple[int, int]
Batch = Callable[[Sequence[Request]], Awaitable[Sequence[Completion]]]
_Waiting = dict[Session, tuple[Request, "asyncio.Future[Completion]"]]


class Waves:
    """Collects requests; a batch depends on who asked, never on who asked first."""

    def __init__(self, run: Batch) -> None:
        """Remember what answers a batch: one completion per request, in its order."""
        self._run = run
        self._live: dict[Session, None] = {}
        self._waiting: _Waiting = {}
        self._running: set[asyncio.Task[None]] = set()

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
            left, self._waiting = self._waiting, {}
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
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._waiting[session] = (request, future)
        self._start_if_complete()
        try:
            return await future
        finally:
            if self._waiting.get(session, (None, None))[1] is future:
                del self._waiting[session]

    def _start_if_complete(self) -> None:
        if not self._waiting or len(self._waiting) < len(self._live):
            return
        wave, self._waiting = self._waiting, {}
        task = asyncio.get_running_loop().create_task(self._answer(wave))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _answer(self, wave: _Waiting) -> None:
        ordered = sorted(wave.values(), key=lambda item: (item[0].turn, item[0].session))
        try:
            completions = await self._run([request for request, _ in ordered])
        except asyncio.CancelledError:
            for _, future in ordered:
                future.cancel()
            raise
        except EngineError as error:
            _fail(wave, error)
            return
        for (_, future), completion in zip(ordered, completions, strict=True):
            if not future.done():
                future.set_result(completion)


def _fail(wave: _Waiting, error: EngineError) -> None:
    """Tell every waiter, each with an exception of its own."""
    for _, future in wave.values():
        if not future.done():
            own = type(error)(*error.args)
            own.__cause__ = error
            future.set_exception(own)
