"""Coroutines for callers without an event loop.

In    an object with coroutines, and a caller that wants to wait for one
Out   its result, from one private event loop for the object's life
Not   a way into a loop that runs already: that is refused at once, it would block
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

from agentrl.errors import UsageError

T = TypeVar("T")


class PrivateLoop:
    """One event loop for one owner: what async code opens belongs to the loop it ran in."""

    def __init__(self, owner: object) -> None:
        """Make the loop; it is closed with its owner at the latest."""
        self._loop = asyncio.new_event_loop()
        self._finalizer = weakref.finalize(owner, self._loop.close)

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return self._loop.run_until_complete(coroutine)

    def close(self) -> None:
        """Close the loop; harmless to repeat."""
        self._finalizer()


def refuse_running_loop(name: str, instead: str) -> None:
    """UsageError where the caller is inside an event loop already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        f"{name}: called inside a running event loop, which it would block. "
        f"Write `{instead}` there."
    )
