"""A session with an MCP server, held open by a task of its own.

In    a server: a command, or the URL of one that runs
Out   its tools; results of calls, which may come from any task of the session's event loop
Not   restarts: a session that has ended stays so
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import anyio
from mcp import Client, MCPError
from mcp_types import CONNECTION_CLOSED, CallToolResult, Tool

from agentrl.errors import EnvironmentFault, ToolError
from agentrl.mcp.process import GRACE, Command, LastWords, child

MAX_PAGES = 100
"""Of the list of tools."""

Server = Command | str
"""How a server is reached: started, or by URL."""


class SessionEnded(Exception):
    """The session ended before the call was answered."""


class Session:
    """One connection. What is opened in a task has to be closed in it, so it has one."""

    def __init__(self, server: Server) -> None:
        """Of a server that is not reached yet."""
        self.server = server
        self._words = LastWords()
        self._closing = asyncio.Event()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live())

    async def ready(self, seconds: float) -> Session:
        """Wait until the server has answered.

        Raises:
            EnvironmentFault: It did not in time, or it cannot be started.
        """
        either: set[asyncio.Future[Any]] = {self._client, self._task}
        try:
            await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.close()
            raise
        if self._client.done():
            return self
        late = not self._task.done()
        await self.close()
        why = f"no answer in {seconds:g} seconds" if late else self.why()
        raise EnvironmentFault(f"MCP server {named(self.server)}: it cannot be used: {why}.")

    async def tools(self) -> list[Tool]:
        """All that the server offers; EnvironmentFault where it does not say."""
        client, where = await self._client, f"MCP server {named(self.server)}"
        found: list[Tool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                page = await client.list_tools(cursor=cursor)
            except MCPError as error:
                said = error.message[:400]
                raise EnvironmentFault(f"{where}: it lists no tools: {said}.") from error
            except ValueError as error:
                said = " ".join(str(error).split())[:400]
                raise EnvironmentFault(
                    f"{where}: its list of tools is not valid: {said}"
                ) from error
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """What the server answers to a call.

        Raises:
            ToolError: It refuses the call.
            SessionEnded: It is gone.
        """
        if self._task.done():
            raise SessionEnded
        client = await self._client
        try:
            return await client.call_tool(name, arguments)
        except MCPError as error:
            # A server may use the code itself, which is that of any error of its own.
            if error.code == CONNECTION_CLOSED and not await _lives(client):
                raise SessionEnded from error
            raise ToolError(f"{name}: {error.message[:400]}") from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise SessionEnded from error

    async def close(self) -> None:
        """End the session and its server; harmless to repeat."""
        self._closing.set()
        if not self._client.done():
            self._task.cancel()
        # Shielded by `wait`: whoever is cancelled here leaves the task to end by itself.
        await asyncio.wait({self._task}, timeout=5 * GRACE)
        if self._task.done() and not self._task.cancelled():
            self._task.exception()  # has been seen: asyncio reports the others when it forgets them

    @property
    def ended(self) -> bool:
        """Whether it and its server are gone."""
        return self._task.done()

    @property
    def offence(self) -> str:
        """What it did for which its session was ended, if it did."""
        return self._words.why

    def why(self) -> str:
        """Why it ended, as far as that is known."""
        error = None
        if self._task.done() and not self._task.cancelled():
            error = self._task.exception()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        said = [" ".join(str(error or "").split())[:400], self._words.told()]
        return ". ".join(part.rstrip(".") for part in said if part) or "it ended"

    async def _live(self) -> None:
        server, cancelled = self.server, asyncio.CancelledError
        transport = server if isinstance(server, str) else child(server, self._words)
        with suppress(cancelled):  # only `close` cancels, and it waits for the end
            async with Client(transport, cache=None) as client:
                self._client.set_result(client)
                await self._closing.wait()


async def _lives(client: Client) -> bool:
    """Whether a server still answers, whatever it says."""
    try:
        await client.list_tools()  # the one question that every version of the protocol has
    except MCPError as error:
        return error.code != CONNECTION_CLOSED
    except ValueError:
        return True
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        return False
    return True


def named(server: Server) -> str:
    """A server as a person knows it."""
    return server if isinstance(server, str) else " ".join([server.program, *server.args])[:200]
