"""An environment's tools for other agents, over MCP.

In    an environment and one of its tasks; an MCP client on standard input and output
Out   answers to its calls, as a policy of ours would read them
Not   scores: what the other agent does is not an episode that anybody trains on; nor calls side
      by side: they are run one after the other, in the order they came
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    TextContent,
    Tool,
)

from agentrl.env import ToolEnv
from agentrl.message import AssistantTurn, ToolCall
from agentrl.task import Task
from agentrl.version import __version__


async def serve(env: ToolEnv, task: Task) -> None:
    """Serve the tools of one episode until the client leaves.

    The limits of an episode do not hold: who plays it, and for how long, is the client's matter.

    Raises:
        EnvironmentFault: The environment cannot be started, or its `release` broke.
    """
    env.max_turns = env.max_tool_calls = env.max_parse_errors = sys.maxsize
    try:
        opening, _ = await env.areset(options={"task": task})
        told = "\n\n".join(message["content"] for message in opening)
        server = server_of(env, told)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        await env.arelease()


def server_of(env: ToolEnv, instructions: str) -> Server[Any]:
    """A server of an environment that has been reset."""
    turn = asyncio.Lock()

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[_tool(schema["function"]) for schema in env.tool_schemas()])

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        async with turn:
            return await _called(env, ToolCall(params.name, params.arguments or {}))

    return Server(
        type(env).__name__,
        version=__version__,
        instructions=instructions or None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _tool(function: Mapping[str, Any]) -> Tool:
    return Tool(
        name=function["name"],
        description=function["description"],
        input_schema=dict(function["parameters"]),
    )


async def _called(env: ToolEnv, call: ToolCall) -> CallToolResult:
    if env.end is None:
        await env.astep(AssistantTurn("", (call,)))
        if outcomes := env.turns[-1].outcomes:
            return _answer(outcomes[0].content, failed=outcomes[0].status != "ok")
    return _answer(f"not run: {_over(env)}", failed=True)


def _over(env: ToolEnv) -> str:
    return (env.end and env.end.problem) or "the episode is over."


def _answer(text: str, *, failed: bool) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=failed)
