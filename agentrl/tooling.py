"""Tools: decorated methods of an environment, and what a policy is told about them.

In    methods with type hints and a docstring
Out   ToolSpec: name, description and JSON schema; arguments checked by pydantic
Not   running them: calling.py does; nor guessing which methods are tools: only marked ones are
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType
from typing import Any, TypeVar, overload

from agentrl.arguments import check, is_plain, model_of, read_docstring, schema_of
from agentrl.errors import UsageError, blame

F = TypeVar("F", bound=Callable[..., Any])

TIMEOUT = 10.0
"""Seconds a tool may take where it does not say."""
_MARK = "__agentrl_tool__"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool may return instead of a string."""

    content: str
    """What the policy reads."""
    reward: float = 0.0
    """Added to the episode's reward."""
    terminate: bool = False
    """The episode is over; it ends with stop `tool_end`."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Named numbers that a run records with the trajectory; the policy never sees them."""
    is_error: bool = False
    """The policy reads it as a result, the run counts it as a failed call."""


@dataclass(frozen=True, slots=True)
class _Marked:
    """What the decorator was told."""

    timeout: float
    name: str
    parallel: bool


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool: what a policy is told about it, and how it is run."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments, an object."""
    timeout: float
    """Seconds."""
    fn: Callable[..., Any]
    """What is called with the arguments; of a class's tool the method, until it is `bound`."""
    check: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    """Arguments as the policy wrote them → keyword arguments of `fn`, or BadArguments."""
    parallel: bool = True
    """Whether it may run beside the other calls of a turn."""
    quick: bool = False
    """Whether `check` runs nothing but code of ours that is done at once: what it does to a few
    arguments then needs no thread."""
    listed: bool = True
    """Whether prompts tell of it. A prompt can't change in mid-episode: a tool that comes later
    is there from the beginning, unlisted, and the environment's own words tell of it in time."""

    def schema(self) -> dict[str, Any]:
        """The tool as chat templates take it."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}

    def bound(self, owner: object) -> ToolSpec:
        """The tool of one instance: its method needs no `self` any more."""
        return replace(self, fn=partial(self.fn, owner))


@overload
def tool(fn: F) -> F: ...
@overload
def tool(
    *, timeout: float = TIMEOUT, name: str | None = None, parallel: bool = True
) -> Callable[[F], F]: ...
def tool(
    fn: F | None = None,
    *,
    timeout: float = TIMEOUT,
    name: str | None = None,
    parallel: bool = True,
) -> Any:
    """Mark a method as a tool that the policy may call.

    Its schema comes from the type hints and the docstring, whose `Args:` section describes
    the parameters. Numbers may come as text ("3"); true and false are no numbers, and NaN and
    infinity are refused unless the hint is `Annotated[float, Field(allow_inf_nan=True)]`. What
    a hint says as a model arrives as one.

    It returns text, a ToolResult, or anything that JSON can show; what it raises is told to the
    policy in a line, and an EnvironmentFault ends the episode.

    Args:
        fn: The method. One that is not `async` runs in a thread, and may block.
        timeout: Seconds; then the policy is told so and the episode goes on. A coroutine is
            cancelled. A thread can't be: what it runs should come to an end by itself, and may
            change the environment until it does.
        name: What the policy calls it, if not the method's name.
        parallel: Whether it may run beside the other calls of a turn.
    """
    if not timeout > 0:
        raise UsageError(f"tool: timeout must be above 0 seconds, not {timeout}.")

    def mark(method: F) -> F:
        if not isinstance(method, FunctionType):
            raise UsageError(f"tool: {method!r} is not a plain method. Put @tool on a `def`.")
        setattr(method, _MARK, _Marked(timeout, name or method.__name__, parallel))
        return method

    return mark if fn is None else mark(fn)


def is_tool(value: object) -> bool:
    """Whether a class attribute is marked as a tool."""
    return hasattr(value, _MARK)


def tools_of(cls: type) -> dict[str, ToolSpec]:
    """Tools of a class by name, in the order they were defined, inherited ones first."""
    attributes = dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base))
    specs: dict[str, ToolSpec] = {}
    for attribute in attributes:
        method = inspect.getattr_static(cls, attribute)
        marked = getattr(method, _MARK, None)
        if marked is None:
            continue
        spec = _spec(f"{cls.__name__}.{attribute}", method, marked)
        if spec.name in specs:
            raise UsageError(f"{cls.__name__}: two tools are called {spec.name}. Rename one.")
        specs[spec.name] = spec
    return specs


def _spec(where: str, method: Any, marked: _Marked) -> ToolSpec:
    if not isinstance(method, FunctionType):
        raise UsageError(
            f"{where}: a tool is a plain method, not {type(method).__name__}. Mark one."
        )
    if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        raise UsageError(f"{where}: a tool returns its result once. Return instead of yielding.")
    if not _NAME.fullmatch(marked.name):
        raise UsageError(f"{where}: {marked.name!r} can't name a tool. Use letters, digits, _.")
    if not inspect.signature(method).parameters:
        raise UsageError(
            f"{where}: it takes no self. A tool is a method: write `def f(self, ...)`."
        )
    summary, described = read_docstring(inspect.getdoc(method) or "")
    with blame(UsageError, f"{where}: no schema can be made from its hints"):
        model = model_of(where, method, described)
        parameters = schema_of(model)
    return ToolSpec(
        marked.name,
        summary,
        parameters,
        marked.timeout,
        method,
        partial(check, marked.name, model),
        marked.parallel,
        quick=is_plain(model),
    )
