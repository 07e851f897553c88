"""McpTools: the tools of an MCP server, as a toolbox for any environment.

In    a command that starts a server on its standard streams, or the URL of one that runs
Out   its tools under their own schemas; each episode has a session of its own, or all share one
Not   prompts, sampling or resources of MCP; a server is trusted with what it is told
"""

from __future__ import annotations

import asyncio
import re
import shlex
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mcp_types import Tool

from agentrl.errors import EnvironmentFault, UsageError, suggestion
from agentrl.mcp.hub import hub
from agentrl.mcp.process import Command
from agentrl.mcp.schema import checker
from agentrl.mcp.session import Server, Session, SessionEnded, named
from agentrl.mcp.words import text_of
from agentrl.task import Task
from agentrl.toolbox import Toolbox
from agentrl.tooling import ToolResult, ToolSpec

MAX_DESCRIPTION = 4000
"""Characters."""
MAX_RESTARTS = 1
"""Of a server in an episode."""
ENDED = "mcp_server_ended"
"""Metric of a call during which its server ended."""


class McpTools(Toolbox):
    """The tools of an MCP server."""

    def __init__(
        self,
        *,
        command: str = "",
        args: str | Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        url: str = "",
        shared: bool = False,
        only: str | Sequence[str] = (),
        prefix: str = "",
        seconds: float = 30.0,
        start_seconds: float = 60.0,
    ) -> None:
        """Say which server; it is asked for its tools when an environment wants to know them.

        Args:
            command: Program that is started for each episode.
            args: Its arguments, as a list, or as one text in the manner of a shell.
            env: Variables for it beside PATH, HOME and the like, which are all it is given.
            cwd: Folder that it is started in.
            url: A server that runs already, instead of a command.
            shared: Whether all episodes of this process share one session, and what it remembers.
            only: Names of the tools to offer; all where none is named.
            prefix: Set before the names, where those of two servers are the same.
            seconds: Time limit of a call.
            start_seconds: Time limit of starting a server, and of asking it for its tools.
        """
        if bool(command) == bool(url):
            raise UsageError("mcp: which server is not clear. Give one of command and url.")
        if not (seconds > 0 and start_seconds > 0):
            raise UsageError("mcp: seconds and start_seconds must be above 0.")
        words = shlex.split(args) if isinstance(args, str) else tuple(args)
        variables = tuple(sorted((env or {}).items()))
        self._server: Server = url or Command(command, tuple(words), variables, cwd or None)
        names = only.split(",") if isinstance(only, str) else only
        self._only = tuple(name.strip() for name in names if name.strip())
        self._prefix, self._seconds, self._start_seconds = prefix, seconds, start_seconds
        self._shared, self._restarts = shared, 0
        self._session: Session | None = None
        self._turn: asyncio.Lock = asyncio.Lock()
        if shared:
            hub().join(self._server)
            weakref.finalize(self, hub().leave, self._server)

    def tools(self) -> Mapping[str, ToolSpec]:
        """What the server offers, asked once a process.

        Raises:
            UsageError: The server cannot be used, or one of its tools cannot be offered.
        """
        try:
            listed = hub().submit(hub().listing(self._server, self._start_seconds)).result()
        except (EnvironmentFault, TimeoutError) as error:
            raise UsageError(
                str(error) or f"{self._where()}: its list of tools is late. Raise start_seconds."
            ) from error
        names = [tool.name for tool in listed]
        if missing := [name for name in self._only if name not in names]:
            there = f"It has {', '.join(names) or 'none'}."
            hint = suggestion(missing[0], names, there)
            raise UsageError(f"{self._where()}: it has no tool {missing[0]}. {hint}")
        specs = [self._spec(t) for t in listed if not self._only or t.name in self._only]
        if twice := {s.name for s in specs if sum(s.name == other.name for other in specs) > 1}:
            raise UsageError(
                f"{self._where()}: two of its tools are called {min(twice)}. Name one in only."
            )
        return {spec.name: spec for spec in specs}

    async def start(self, task: Task) -> None:
        """Open the session of an episode."""
        self._restarts = 0
        self._session = await hub().run(self._opened(None))

    async def release(self) -> None:
        """End it, and its server; one that is shared goes on."""
        session, self._session = self._session, None
        if session is not None and not self._shared:
            await hub().run(hub().close(session))

    def _spec(self, tool: Tool) -> ToolSpec:
        name = self._prefix + re.sub(r"[^A-Za-z0-9_-]", "_", tool.name)
        name = (name if re.match(r"[A-Za-z_]", name) else f"_{name}")[:64]
        where = f"{self._where()}: tool {tool.name[:80]}"
        reads = tool.annotations is not None and tool.annotations.read_only_hint is True
        return ToolSpec(
            name=name,
            description=(tool.description or tool.title or "")[:MAX_DESCRIPTION],
            parameters=tool.input_schema,
            timeout=self._seconds,
            fn=partial(self._call, tool.name),
            check=checker(where, name, tool.input_schema),
            # What changes something at the server should happen in the order it was asked for.
            parallel=reads,
        )

    async def _call(self, name: str, /, **arguments: Any) -> ToolResult:
        session = self._session
        if session is None:
            raise UsageError(f"{self._where()}: no episode has begun. Call start first.")
        try:
            result = await hub().run(session.call(name, arguments))
        except SessionEnded:
            again = await hub().run(self._restart(session))
            why = session.offence or "its server ended before it answered."
            # An answer, and no fault: a policy that can make a server end would choose with it
            # whether its episode counts.
            return ToolResult(f"{name}: {why} {again}", is_error=True, metrics={ENDED: 1.0})
        return ToolResult(text_of(result), is_error=result.is_error)

    async def _restart(self, dead: Session) -> str:
        async with self._turn:
            if self._session is dead:
                await hub().close(dead)
                if self._restarts >= MAX_RESTARTS:
                    return "It ended twice, and is not started again in this episode."
                self._restarts += 1
                self._session = await self._opened(dead)
            # Else another call of the turn has seen to it.
            return "It was started again, and what it had in memory is lost."

    async def _opened(self, dead: Session | None) -> Session:
        if self._shared:
            return await hub().shared(self._server, self._start_seconds, dead)
        return await hub().open(self._server, self._start_seconds)

    def _where(self) -> str:
        return f"MCP server {named(self._server)}"
