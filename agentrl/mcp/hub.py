"""The event loop of all MCP sessions of a process, in a thread of its own.

In    work for sessions, from threads and from other event loops
Out   its results; each server's list of tools, asked for once; sessions that are shared
Not   a way to wait inside its own loop

A session lives longer than a step, and often longer than the loop that asked for it: `env.step`
runs one only while it waits. Here sessions are served all the time, whoever waits.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from mcp_types import Tool

from agentrl.mcp.process import GRACE
from agentrl.mcp.session import Server, Session

T = TypeVar("T")


class Hub:
    """Sessions by server, and where they run."""

    def __init__(self) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._open: set[Session] = set()
        self._listings: dict[Server, asyncio.Task[list[Tool]]] = {}
        self._shared: dict[Server, asyncio.Task[Session]] = {}
        self._users: dict[Server, int] = {}
        threading.Thread(target=self._loop.run_forever, name="agentrl-mcp", daemon=True).start()
        atexit.register(self.stop)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin work on the hub's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work, for a caller on another loop; cancelled with it."""
        return await asyncio.wrap_future(self.submit(work))

    async def open(self, server: Server, seconds: float) -> Session:
        """A new session; EnvironmentFault where the server cannot be used."""
        session = Session(server)
        self._open.add(session)
        try:
            return await session.ready(seconds)
        except BaseException:
            # One that does not end in time is kept, so that `stop` sees to it.
            if session.ended:
                self._open.discard(session)
            raise

    async def close(self, session: Session) -> None:
        """End a session."""
        await session.close()
        if session.ended:
            self._open.discard(session)

    async def listing(self, server: Server, seconds: float) -> list[Tool]:
        """The tools of a server. It is asked once; where that fails, the next one asks again."""
        if server not in self._listings:
            self._listings[server] = asyncio.create_task(self._list(server, seconds))
        task = self._listings[server]
        await asyncio.wait({task})
        if (task.cancelled() or task.exception()) and self._listings.get(server) is task:
            del self._listings[server]
        return task.result()

    async def shared(self, server: Server, seconds: float, dead: Session | None = None) -> Session:
        """The one session that all share; a new one where it is the one that is dead."""
        task = self._shared.get(server)
        if task is None or (task.done() and (task.exception() or task.result() is dead)):
            task = self._shared[server] = asyncio.create_task(self.open(server, seconds))
        await asyncio.wait({task})
        return task.result()

    def join(self, server: Server) -> None:
        """Someone will use the shared session of a server."""
        self._loop.call_soon_threadsafe(self._count, server, 1)

    def leave(self, server: Server) -> None:
        """Someone will not any more; after the last one it is ended."""
        with suppress(RuntimeError):  # the loop ended before
            self._loop.call_soon_threadsafe(self._count, server, -1)

    def stop(self) -> None:
        """End all sessions, at the end of the process."""
        with suppress(TimeoutError):
            self.submit(self._close_all()).result(timeout=10 * GRACE)
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _count(self, server: Server, change: int) -> None:
        self._users[server] = self._users.get(server, 0) + change
        if self._users[server] <= 0 and (task := self._shared.pop(server, None)) is not None:
            task.add_done_callback(self._end_shared)

    def _end_shared(self, task: asyncio.Task[Session]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._ending = asyncio.ensure_future(self.close(task.result()))

    async def _list(self, server: Server, seconds: float) -> list[Tool]:
        session = await self.open(server, seconds)
        try:
            async with asyncio.timeout(seconds):
                return await session.tools()
        finally:
            await self.close(session)

    async def _close_all(self) -> None:
        for task in (*self._listings.values(), *self._shared.values()):
            task.cancel()
        while not all(session.ended for session in self._open):
            await asyncio.gather(*map(self.close, tuple(self._open)))


@cache
def _hub(_process: int) -> Hub:
    return Hub()


def hub() -> Hub:
    """The hub of this process; a thread does not live on in a fork."""
    return _hub(os.getpid())
