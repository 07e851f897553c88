"""Gate: so many inside at once, and nobody's turn taken by another's crowd.

In    a limit; whoever wants in, under the key of its task
Out   a block in which it is one of at most so many
Not   an order of arrival: the next one in is of the task that has fewest inside, then of the one
      that was let in longest ago, and only among those of one task whoever came first

While a task waits and has nobody inside, no other task is let in twice. So a task's first
episode waits for at most one of each other task, however many of those came before it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field

Key = int
"""What turns are fair between: the position of a task in its step."""


class Gate:
    """Lets a limited number in at once."""

    def __init__(self, most: int = 0) -> None:
        """Set the limit.

        Args:
            most: How many may be inside at once; 0: any number.
        """
        self.most = most
        self.inside = 0
        """How many are inside now; not counted where there is no limit."""
        self._held: Counter[Key] = Counter()
        self._waiting: dict[Key, deque[asyncio.Future[None]]] = {}
        self._last: dict[Key, int] = {}
        self._grants = 0

    def at(self, key: Key) -> AbstractAsyncContextManager[None]:
        """A block inside; it begins when there is room."""
        return _Inside(self, key) if self.most else nullcontext()

    async def enter(self, key: Key) -> None:
        """Wait for room and take it."""
        if self.inside < self.most:
            self._admit(key)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.leave(key)  # It was let in, and told to go at the same time.
            raise

    def leave(self, key: Key) -> None:
        """Give room back; whoever is next takes it."""
        self.inside -= 1
        self._held[key] -= 1
        while self._waiting and self.inside < self.most:
            self._let_in(min(self._waiting, key=self._claim))

    def _claim(self, key: Key) -> tuple[int, int]:
        return self._held[key], self._last.get(key, 0)

    def _let_in(self, key: Key) -> None:
        """Whoever came first of a task, unless it gave up waiting."""
        queue = self._waiting[key]
        waiter = queue.popleft()
        if not queue:
            del self._waiting[key]
        if not waiter.done():
            self._admit(key)
            waiter.set_result(None)

    def _admit(self, key: Key) -> None:
        self._grants += 1
        self.inside += 1
        self._held[key] += 1
        self._last[key] = self._grants


@dataclass(slots=True)
class _Inside(AbstractAsyncContextManager[None]):
    gate: Gate
    key: Key

    async def __aenter__(self) -> None:
        await self.gate.enter(self.key)

    async def __aexit__(self, *raised: object) -> None:
        self.gate.leave(self.key)


@dataclass(frozen=True, slots=True)
class Gates:
    """The gates that all episodes of a phase pass through; one that is not given lets all in."""

    requests: Gate = field(default_factory=Gate)
    """Around each turn at the engine."""
    resets: Gate = field(default_factory=Gate)
    """Around the making of an environment, and around its reset."""
    calls: Gate = field(default_factory=Gate)
    """Around each call of a tool; a call's time limit begins inside."""
