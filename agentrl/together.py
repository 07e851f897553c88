"""Coroutines side by side → their results, or the first error alone.

In    coroutines
Out   results in their order; at an error the others are cancelled, and waited for
Not   a limit: all begin at once
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
RECANCEL = 0.2
"""Seconds until a coroutine that was told to end is told again."""


async def all_or_first_error(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all; at the first error the others are cancelled and it alone is raised."""
    tasks = [asyncio.create_task(w) for w in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        # Again and again: Python 3.11's wait_for loses a cancellation that comes with its result.
        while left := [task for task in tasks if not task.done()]:
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=RECANCEL)
        await asyncio.gather(*tasks, return_exceptions=True)
