"""verifiers/ID: a taskset of verifiers 0.4, its tools and its rewards.

In    the id of an installed taskset, and fields of its configuration
Out   a ToolEnv: its tasks, the tools of its toolsets, its rewards and judges, weighted
Not   what needs a program or a machine of its own: loops, harnesses, containers, stop conditions
      and hooks around an episode are refused by name; nor bash, which its own harness adds

Tasks are read once, at most `limit` of them, and divided by content. Toolsets are played in this
process, without the server that verifiers starts for each.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import islice
from typing import Any, ClassVar, TypeVar

from agentrl.adapters.making import named
from agentrl.adapters.traces import trace_of
from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault, ToolError, UsageError, blame
from agentrl.mcp.schema import checker
from agentrl.message import Message
from agentrl.optional import need
from agentrl.task import ListTasks, Task, TaskSource
from agentrl.toolbox import Toolbox
from agentrl.tooling import ToolResult, ToolSpec
from agentrl.trajectory import Trajectory

T = TypeVar("T")

TIMEOUT = 60.0
"""Seconds of a tool."""


class Verifiers(ToolEnv):
    """Tasks, tools and rewards of a taskset of verifiers."""

    taskset_id: ClassVar[str] = ""

    def __init__(
        self, max_turns: int = 16, success: float = 1.0, limit: int = 10_000, **config: Any
    ) -> None:
        """Load the taskset, and refuse what can't be played here.

        Args:
            max_turns: Turns of the policy.
            success: Reward from which an episode counts as correct.
            limit: Tasks that are read.
            config: Fields of the taskset's configuration.
        """
        self.max_turns, self.success, self.limit = max_turns, success, limit
        where = f"--env verifiers/{self.taskset_id}"
        with blame(UsageError, where):
            kind = _vf().taskset_config_type(self.taskset_id)
            self._config = kind.model_validate({"id": self.taskset_id, **config})
            self._taskset = _vf().load_taskset(self._config)
        reason = next(_unplayable(self.taskset_id, type(self._taskset).task_type()), "")
        if reason:
            raise UsageError(f"{where}: it {reason}. Play it with verifiers.")
        self.theirs: Any = None
        self.state: Any = None

    @classmethod
    def tasks(cls, split: str) -> TaskSource:
        """Tasks by the default configuration."""
        return cls().task_source(split)

    def task_source(self, split: str) -> TaskSource:
        """Tasks by this instance's configuration."""
        return ListTasks(self._tasks, split=split)

    def toolboxes(self) -> Sequence[Toolbox]:
        """A box for each toolset."""
        kind = type(self._taskset).task_type()
        shared = len(self._taskset.toolsets(self._config))
        count = shared + len(kind.toolsets(self._config.task))
        return tuple(_Tools(self, i, i < shared) for i in range(count))

    def toolset(self, index: int) -> Any:
        """A fresh one: those of the taskset come first, then those of its tasks."""
        kind = type(self._taskset).task_type()
        made = [*self._taskset.toolsets(self._config), *kind.toolsets(self._config.task)]
        return made[index]

    def begin(self, task: Task) -> None:
        """Find their task, and make the state that its tools and rewards share."""
        self.theirs = self._theirs[(task.meta or {})["index"]]
        self.state = _vf("verifiers.v1.state").state_cls(type(self.theirs))()

    def start(self, task: Task) -> None:
        """The same for a taskset without tools."""
        if self.state is None:
            self.begin(task)

    def release(self) -> None:
        """Forget the state."""
        self.state = None

    def reward(self, task: Task, trajectory: Trajectory) -> dict[str, float]:
        """Their rewards by name, each times its weight."""
        trace = trace_of(_vf(), self.theirs, self.state, trajectory)
        with blame(EnvironmentFault, f"verifiers/{self.taskset_id}: scoring"):
            asyncio.run(self.theirs.score(trace, None))
        missing = [name for name, reward in trace.rewards.items() if reward is None]
        if missing:
            raise EnvironmentFault(f"verifiers/{self.taskset_id}: {missing[0]} gave no reward.")
        return {name: float(reward.value) for name, reward in trace.rewards.items()}

    @cached_property
    def _theirs(self) -> list[Any]:
        with blame(UsageError, f"--env verifiers/{self.taskset_id}: its tasks"):
            return list(islice(iter(self._taskset), self.limit))

    @cached_property
    def _tasks(self) -> list[Task]:
        return [_ours(self.taskset_id, i, theirs) for i, theirs in enumerate(self._theirs)]


class _Tools(Toolbox):
    """One toolset, on an MCP server that nobody connects to."""

    def __init__(self, env: Verifiers, index: int, shared: bool) -> None:
        self._env, self._index, self._shared = env, index, shared
        self._toolset: Any = None
        self._server: Any = None

    def tools(self) -> Mapping[str, ToolSpec]:
        """As verifiers lists them: with the toolset's name before their own."""
        toolset, server = self._made()
        prefix = f"{toolset.server_name}_" if toolset.server_name else ""
        return {
            f"{prefix}{tool.name}": self._spec(f"{prefix}{tool.name}", tool)
            for tool in _waited(server.list_tools)
        }

    async def start(self, task: Task) -> None:
        """Set a fresh toolset up, and let it see the episode's state."""
        if self._env.state is None:
            self._env.begin(task)
        self._toolset, self._server = self._made()
        await self._toolset.setup()
        if not self._shared:
            # In a server of verifiers the state comes over a channel; here it is this object.
            self._toolset._inert_state = self._env.state
            await self._toolset.setup_task(self._env.theirs.data)

    async def release(self) -> None:
        """Close what the toolset opened."""
        toolset, self._toolset, self._server = self._toolset, None, None
        if toolset is not None:
            await toolset._exit_stack.aclose()

    def _made(self) -> tuple[Any, Any]:
        toolset = self._env.toolset(self._index)
        server = _vf("mcp.server.mcpserver").MCPServer(type(toolset).__name__)
        _register(toolset, server)
        return toolset, server

    def _spec(self, name: str, tool: Any) -> ToolSpec:
        schema = {key: value for key, value in tool.input_schema.items() if key != "title"}
        check = checker(f"--env verifiers/{self._env.taskset_id}: {name}", name, schema)
        said = str(tool.description or "")
        call = partial(self._call, tool.name)
        return ToolSpec(name, said, schema, TIMEOUT, call, check, parallel=False)

    async def _call(self, name: str, /, **arguments: Any) -> ToolResult:
        # What a tool raises is told to the policy, as their server tells it.
        with blame(ToolError, name):
            result = await self._server.call_tool(name, arguments)
        text = "\n".join(str(getattr(block, "text", block)) for block in result.content)
        return ToolResult(text, is_error=bool(result.is_error))


def environment(name: str) -> type[ToolEnv]:
    """The class for one taskset.

    Raises:
        UsageError: verifiers is not installed, or there is no such taskset.
    """
    for module in ("verifiers", "verifiers.v1"):
        need(module, "verifiers", f"--env verifiers/{name}")
    with blame(UsageError, f"--env verifiers/{name}"):
        _vf().taskset_config_type(name)
    return named(Verifiers, f"verifiers/{name}", taskset_id=name)


def _waited(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What a coroutine gives, also for callers inside of an event loop; only what is quick."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(ask())).result()


def _vf(module: str = "verifiers.v1") -> Any:
    return need(module, "verifiers", "--env verifiers")


def _unplayable(taskset_id: str, kind: Any) -> Iterator[str]:
    """What of a taskset has no counterpart here."""
    vf = _vf()
    loop = vf.environment_class(taskset_id)
    if loop is not vf.SingleAgentEnv:
        yield f"is played by a loop of its own, {loop.__name__}"
    if vf.default_harness_id(taskset_id) == taskset_id:
        yield "is played by a harness of its own"
    if kind.NEEDS_CONTAINER:
        yield "needs a container"
    for hook in ("setup", "finalize", "stage_verifier"):
        if getattr(kind, hook) is not getattr(vf.Task, hook):
            yield f"prepares a machine: its tasks have a {hook}"
    marked = {
        mark: [n for n in dir(kind) if hasattr(getattr(kind, n, None), mark)]
        for mark in ("stop", "intercept", "reward", "metric")
    }
    for mark in ("stop", "intercept"):
        if marked[mark]:
            yield f"looks into the episode while it goes on: {marked[mark][0]} is a @{mark}"
    for name in (*marked["reward"], *marked["metric"]):
        if _needs_machine(getattr(kind, name)):
            yield f"is scored on a machine: {name} asks for a runtime"


def _needs_machine(fn: Any) -> bool:
    parameter = inspect.signature(fn).parameters.get("runtime")
    return parameter is not None and parameter.default is parameter.empty


def _register(toolset: Any, server: Any) -> None:
    """The toolset's own tools, without the channel to a server's state."""
    find = _vf("verifiers.v1.utils.decorators").discover_decorated
    for fn in find(toolset, "tool"):
        name = getattr(fn, "tool_name", None) or fn.__name__
        server.add_tool(fn, name=name, description=(fn.__doc__ or "").strip() or None)


def _ours(taskset_id: str, index: int, theirs: Any) -> Task:
    data = theirs.data
    where = f"--env verifiers/{taskset_id}: task {index}"
    if data.image or data.skills:
        raise UsageError(f"{where}: it asks for a container or skills. Play it with verifiers.")
    opening = [Message(role="system", content=data.system_prompt)] if data.system_prompt else []
    if isinstance(data.prompt, str):
        opening.append(Message(role="user", content=data.prompt))
    else:
        opening += [_message(where, message) for message in data.prompt or ()]
    common = set(_vf().TaskData.model_fields)
    rest = data.model_dump(mode="json", exclude=common)
    meta = {"index": index, "tags": [f"verifiers/{taskset_id}"]}
    return Task(tuple(opening), rest or None, id=data.id or "", meta=meta)


def _message(where: str, message: Any) -> Message:
    if not isinstance(message.content, str) or message.role == "tool":
        raise UsageError(
            f"{where}: its prompt has pictures, or results of tools. Use an environment of words."
        )
    return Message(role=message.role, content=message.content)
