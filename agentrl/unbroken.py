"""Work that must come to its end, though what waits for it is cancelled.

In    something to wait for, seconds of grace
Out   what it gives; the cancellation goes on when it is done
Not   work that never ends: after its grace it is cancelled like any other
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def unbroken(work: Awaitable[T], grace: float | None = None) -> T:
    """Wait for work to its end, however often this is cancelled meanwhile.

    Args:
        work: What is begun and must be ended.
        grace: Seconds that it has after the first cancellation; None is without end.

    Raises:
        CancelledError: it was cancelled; the work is done, or its grace was over.
    """
    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        loop = asyncio.get_running_loop()
        end = None if grace is None else loop.time() + grace
        while not doing.done() and (end is None or loop.time() < end):
            await _a_while(doing, None if end is None else end - loop.time())
        doing.cancel()
        if doing.done() and not doing.cancelled():
            doing.exception()
        raise


async def _a_while(doing: asyncio.Future[T], seconds: float | None) -> None:
    try:
        await asyncio.wait([doing], timeout=seconds)
    except asyncio.CancelledError:
        return
