"""Pipeline: rollouts in the order of their steps, played beside what else goes on.

In    how a step is played, how far play may go
Out   what each step's play gave, in order; what broke it, once and at once
Not   two rollouts side by side: the engine has one step's episodes at a time

Nothing is played that was not allowed, so no bound can be passed, and nothing waits for a count
of another's: whoever takes a step has allowed it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


async def nothing() -> None:
    """What is always ready."""


class Pipeline(Generic[T]):
    """Plays steps one after the other, as far as it is allowed."""

    def __init__(
        self,
        play: Callable[[int], Awaitable[T]],
        *,
        first: int,
        before: Callable[[], Awaitable[None]] = nothing,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with nothing allowed.

        Args:
            play: Plays the step of a number.
            first: The step to begin with; others follow by one.
            before: What is waited for before each step; its seconds are no play.
            now: Seconds.
        """
        self._play = play
        self._before = before
        self._now = now
        self._next = first
        self._allowed = first - 1
        self._ready: deque[T] = deque()
        self._runner: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._played = 0.0
        self._since: float | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing is being played."""
        return self._runner is None or self._runner.done()

    @property
    def ahead(self) -> int:
        """Steps that were begun and not taken."""
        return len(self._ready) + (not self.idle)

    @property
    def busy(self) -> float:
        """Seconds of play so far, of what is going on too."""
        return self._played + (0.0 if self._since is None else self._now() - self._since)

    def allow(self, step: int) -> None:
        """Play on, up to a step and no further."""
        self._allowed = max(self._allowed, step)
        self.refuse_if_broken()
        if self._next <= self._allowed and self.idle:
            self._runner = asyncio.get_running_loop().create_task(self._run())
            self._runner.add_done_callback(lambda _: self._news.set())

    async def take(self) -> T:
        """What the next step's play gave; it is played now where it was not before.

        Raises:
            Exception: what broke this play, or one of a later step.
        """
        self.allow(self._next - len(self._ready))
        while not self._ready:
            await self._change()
        self.refuse_if_broken()
        return self._ready.popleft()

    async def rest(self) -> None:
        """Wait until nothing is played; what was not begun waits until it is allowed again."""
        self._allowed = min(self._allowed, self._next)
        while not self.idle:
            await self._change()
        self._allowed = self._next - 1
        self.refuse_if_broken()

    async def close(self) -> None:
        """End what is going on; afterwards nothing plays."""
        self._allowed = self._next - 1
        if self._runner is None:
            return
        if not self._runner.done():
            # Once: a second time would break off what lets go of environments.
            self._runner.cancel()
            await asyncio.wait([self._runner])
        if not self._runner.cancelled():
            self._runner.exception()

    def refuse_if_broken(self) -> None:
        """Raise what broke play, where something did."""
        if self._runner is not None and self._runner.done():
            self._runner.result()

    async def _run(self) -> None:
        while self._next <= self._allowed:
            await self._before()
            self._since = self._now()
            try:
                self._ready.append(await self._play(self._next))
            finally:
                self._played, self._since = self.busy, None
            self._next += 1
            self._news.set()

    async def _change(self) -> None:
        self.refuse_if_broken()
        self._news.clear()
        await self._news.wait()
