"""Notice: word to an episode that it is not needed any more.

In    `give`, from anywhere on the event loop
Out   GivenUp out of the block that heeds it, at once
Not   a cancellation of what comes after that block: what was opened is given back in peace
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class GivenUp(Exception):
    """The episode ends here, and nobody wants what came of it."""


class Notice:
    """Given once; heeded only while an episode is played."""

    __slots__ = ("_scope", "given")

    def __init__(self) -> None:
        """Nothing was said yet."""
        self.given = False
        self._scope: asyncio.Timeout | None = None

    def give(self) -> None:
        """End the block that heeds it, now or when it begins."""
        if self.given:
            return
        self.given = True
        if self._scope is not None:
            self._scope.reschedule(0.0)

    @asynccontextmanager
    async def heeded(self) -> AsyncIterator[None]:
        """A block that the notice ends.

        Raises:
            GivenUp: it was given before the block was through.
        """
        self.refuse_if_given()
        self._scope = scope = asyncio.timeout(None)
        try:
            async with scope:
                yield
        except TimeoutError:
            if scope.expired():
                self.refuse_if_given()
            raise
        finally:
            self._scope = None

    def refuse_if_given(self) -> None:
        """Go no further once it was given, also where code of others hid its cancellation."""
        if self.given:
            raise GivenUp("it was given up: its group was complete without it.")
