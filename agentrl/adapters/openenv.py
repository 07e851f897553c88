"""openenv/URL: an OpenEnv server, one session for each episode.

In    the address of a server, and what its `reset` takes
Out   a ToolEnv: a task is a seed, `act` is a step, its schema the server's; where the server
      offers MCP tools instead, each is a tool
Not   starting a server; nor its plain HTTP steps, which have no state

A server's schemas are read over HTTP, an episode goes over its WebSocket. A step's reward is the
tool's. Whether a seed decides an episode is up to the server; only seeds are divided in splits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, ClassVar

import httpx

from agentrl.adapters.making import named, seeds
from agentrl.env import ToolEnv
from agentrl.errors import BadArguments, EnvironmentFault, ToolError, UsageError, blame
from agentrl.mcp.schema import checker
from agentrl.message import Turn
from agentrl.optional import need
from agentrl.task import Task, TaskSource
from agentrl.toolbox import Toolbox
from agentrl.tooling import ToolResult, ToolSpec
from agentrl.trajectory import Trajectory

_GENERIC = ("Action", "CallToolAction", "ListToolsAction")
"""Titles of schemas that say nothing but that there are MCP tools."""
_HIDDEN = ("metadata",)
"""Fields of every action and observation that are no words for a policy."""
_REFUSED = ("VALIDATION_ERROR",)
MOST = 1 << 24
"""Bytes of a message."""


class OpenEnv(ToolEnv):
    """A session of an OpenEnv server: a task is a seed, a call a step."""

    url: ClassVar[str] = ""
    max_tool_calls = 1000

    def __init__(
        self,
        max_turns: int = 32,
        prompt: str = "",
        success: float = 1.0,
        timeout: float = 60.0,
        **reset: Any,
    ) -> None:
        """Ask the server what it takes.

        Args:
            max_turns: Turns of the policy.
            prompt: What the policy is told beside the first observation.
            success: Reward from which an episode counts as correct.
            timeout: Seconds that the server has for an answer.
            reset: Arguments of the server's `reset` beside the seed.
        """
        self.max_turns, self.success, self.timeout = max_turns, success, timeout
        self.system_prompt = prompt or "Act with the tools."
        self._reset = reset
        self._line: _Line | None = None
        self.action = self._schema()

    @classmethod
    def tasks(cls, split: str) -> TaskSource:
        """Seeds."""
        return seeds("Begin.", split, [f"openenv/{cls.url}"])

    def toolboxes(self) -> Sequence[Toolbox]:
        """The box with the server's actions."""
        return (_Actions(self),)

    def start(self, task: Task) -> str:
        """Open a session and reset it; the first observation opens the episode."""
        self._over = False
        self._line = _Line(self._where, self.url, self.timeout)
        said = self._line.ask("reset", {**self._reset, "seed": int(task.answer["seed"])})
        if said.get("done"):
            raise EnvironmentFault(f"{self._where}: the episode is over when it begins.")
        return _text(said.get("observation"))

    def release(self) -> None:
        """Close the session."""
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def step_with(self, action: Mapping[str, Any]) -> ToolResult:
        """One step."""
        if self._line is None or self._over:
            raise ToolError("the episode is over.")
        said = self._line.ask("step", action)
        self._over = bool(said.get("done"))
        reward = said.get("reward")
        return ToolResult(_text(said.get("observation")), float(reward or 0.0), self._over)

    def reply(self, turn: Turn) -> str:
        """A turn without a call is no step; it is only counted."""
        return "Act by calling a tool."

    def reward(self, task: Task, trajectory: Trajectory) -> float:
        """Nothing beside the rewards of steps."""
        return 0.0

    def offered(self) -> list[dict[str, Any]]:
        """The server's MCP tools, asked for in a session of their own."""
        line = _Line(self._where, self.url, self.timeout)
        try:
            line.ask("reset", self._reset)
            said = line.ask("step", {"type": "list_tools"})
        finally:
            line.close()
        tools: list[dict[str, Any]] = said["observation"]["tools"]
        return tools

    def _schema(self) -> dict[str, Any]:
        with blame(UsageError, f"{self._where}: no OpenEnv server answers there"):
            answer = httpx.get(
                f"{self.url}/schema", timeout=self.timeout, trust_env=not _is_here(self.url)
            )
            answer.raise_for_status()
            action: dict[str, Any] = answer.json()["action"]
        properties = {k: v for k, v in action.get("properties", {}).items() if k not in _HIDDEN}
        return {**action, "properties": properties}

    @property
    def _where(self) -> str:
        return f"--env openenv/{self.url}"


class _Actions(Toolbox):
    """What the server can be asked to do."""

    def __init__(self, env: OpenEnv) -> None:
        self._env = env

    def tools(self) -> Mapping[str, ToolSpec]:
        """`act` with the server's action as parameters, or its MCP tools by their names."""
        action = self._env.action
        if action.get("title") in _GENERIC:
            return {tool["name"]: self._mcp(tool) for tool in self._env.offered()}
        said = str(action.get("description") or "Take one step.").partition("\n")[0]
        return {"act": self._spec("act", said, action, self._act)}

    def _mcp(self, tool: Mapping[str, Any]) -> ToolSpec:
        name = str(tool["name"])
        call = partial(self._call, name)
        return self._spec(name, str(tool.get("description", "")), tool["input_schema"], call)

    def _spec(self, name: str, said: str, schema: Mapping[str, Any], fn: Any) -> ToolSpec:
        shown = {k: v for k, v in schema.items() if k not in ("title", "description")}
        check = checker(f"{self._env._where}: {name}", name, shown)
        # Beside the server's own limit, which should be heard of first.
        return ToolSpec(name, said, shown, self._env.timeout + 5, fn, check, parallel=False)

    def _act(self, **action: Any) -> ToolResult:
        return self._env.step_with(action)

    def _call(self, name: str, /, **arguments: Any) -> ToolResult:
        call = {"type": "call_tool", "tool_name": name, "arguments": arguments}
        return self._env.step_with(call)


class _Line:
    """One session of the server: a message there, a message back."""

    def __init__(self, where: str, url: str, timeout: float) -> None:
        self._where, self._timeout = where, timeout
        client = need("websockets.sync.client", "openenv", where)
        address = f"ws{url.removeprefix('http')}/ws"
        # It is closed by the way out of its context, whose way in may open it.
        self._open = ExitStack()
        with blame(EnvironmentFault, where):
            session = client.connect(
                address,
                open_timeout=timeout,
                close_timeout=5,
                max_size=MOST,
                proxy=None if _is_here(url) else True,
            )
            self._socket = self._open.enter_context(session)

    def ask(self, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """What the server says to a message.

        Raises:
            BadArguments: it does not take the action.
            EnvironmentFault: anything else is wrong.
        """
        with blame(EnvironmentFault, self._where):
            self._socket.send(json.dumps({"type": kind, "data": data}))
            answer = json.loads(self._socket.recv(timeout=self._timeout))
        said: dict[str, Any] = answer["data"]
        if answer["type"] != "error":
            return said
        if kind == "step" and said.get("code") in _REFUSED:
            raise BadArguments(f"the action is not valid. {_errors(said)}")
        raise EnvironmentFault(f"{self._where}: {said.get('code')}: {said.get('message')}")

    def close(self) -> None:
        """Say goodbye and hang up, whatever state it is in."""
        with blame(EnvironmentFault, self._where):
            self._open.close()


def environment(name: str) -> type[ToolEnv]:
    """The class for one server.

    Raises:
        UsageError: it is no address, or websockets is not installed.
    """
    if not name.startswith(("http://", "https://")):
        raise UsageError(f"--env openenv/{name}: not an address. Write openenv/http://HOST:PORT.")
    need("websockets.sync.client", "openenv", f"--env openenv/{name}")
    return named(OpenEnv, f"openenv/{name}", url=name.rstrip("/"))


def _is_here(url: str) -> bool:
    """On this machine: then no proxy stands between."""
    return httpx.URL(url).host in ("127.0.0.1", "::1", "localhost")


def _errors(said: Mapping[str, Any]) -> str:
    found = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in said.get("errors", [])[:3]]
    return "; ".join(found) or str(said.get("message", ""))


def _text(observation: Any) -> str:
    """An observation in words: its only field as it is, where that is text; else JSON."""
    if not isinstance(observation, Mapping):
        return observation if isinstance(observation, str) else json.dumps(observation)
    shown = {k: v for k, v in observation.items() if k not in _HIDDEN and v is not None}
    if "tool_name" in shown:
        shown = {k: v for k, v in shown.items() if k in ("result", "error")}
    values = list(shown.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return json.dumps(shown, ensure_ascii=False)
