"""Tools: decorated methods of an environment, and what a policy is told about them.

In    methods with type hints and a docstring
Out   ToolSpec: name, description and JSON schema; arguments checked by pydantic
Not   running them: calling.py does; nor guessing which methods are tools: only marked ones are
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType
from typing import Any, TypeVar, overload

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
    create_model,
)

from agentrl.errors import ToolError, UsageError, blame

F = TypeVar("F", bound=Callable[..., Any])

TIMEOUT = 10.0
"""Seconds a tool may take where it does not say."""
_MARK = "__agentrl_tool__"
_SECTION = re.compile(r"^(Args|Arguments|Returns|Raises|Yields|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"^(\w+)(?: \([^)]*\))?:\s*(.*)$")
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


class BadArguments(ToolError):
    """Arguments that do not fit a tool's schema, in words for the policy."""


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
    the parameters. A method that is not `async` runs in a thread of its own. After `timeout`
    seconds the policy is told so and the episode goes on; a thread can't be killed, so what it
    runs should come to an end by itself, and may still change the environment until it does.
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
        raise UsageError(f"{where}: a tool is a plain method, not {type(method).__name__}.")
    if not _NAME.fullmatch(marked.name):
        raise UsageError(f"{where}: {marked.name!r} can't name a tool. Use letters, digits, _.")
    if not inspect.signature(method).parameters:
        raise UsageError(
            f"{where}: it takes no self. A tool is a method: write `def f(self, ...)`."
        )
    summary, described = _read_docstring(inspect.getdoc(method) or "")
    with blame(UsageError, f"{where}: no schema can be made from its hints"):
        model = _model(where, method, described)
        parameters = _untitled(model.model_json_schema(by_alias=True))
    check = partial(_check, marked.name, model)
    return ToolSpec(
        marked.name, summary, parameters, marked.timeout, method, check, marked.parallel
    )


def _check(name: str, model: type[BaseModel], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of the types that the hints name; models stay models."""
    try:
        checked = model.model_validate(dict(arguments))
    except ValidationError as error:
        raise BadArguments(_objections(name, model, error)) from None
    return {str(field.alias): getattr(checked, key) for key, field in model.model_fields.items()}


def _objections(name: str, model: type[BaseModel], error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    said = [f"{'.'.join(map(str, e['loc']))[:80]}: {e['msg']}" for e in found[:3]]
    known = ", ".join(str(field.alias) for field in model.model_fields.values()) or "none"
    return f"{name}: bad arguments. {'; '.join(said)}. Parameters: {known}."


def _model(where: str, method: FunctionType, described: Mapping[str, str]) -> type[BaseModel]:
    """A pydantic model of the parameters, by alias: a tool's `json` or `copy` is as good a name."""
    hints = _hints(where, method)
    fields: dict[str, Any] = {}
    for i, parameter in enumerate(list(inspect.signature(method).parameters.values())[1:]):
        _check_parameter(where, parameter, hints)
        _check_hint(where, parameter.name, hints[parameter.name])
        default = ... if parameter.default is parameter.empty else parameter.default
        field = Field(default, alias=parameter.name, description=described.get(parameter.name))
        fields[f"a{i}"] = (hints[parameter.name], field)
    return create_model(where, __config__=ConfigDict(extra="forbid"), **fields)


def _hints(where: str, method: FunctionType) -> dict[str, Any]:
    try:
        return typing.get_type_hints(method, include_extras=True)
    except NameError as error:
        raise UsageError(
            f"{where}: a type hint can't be read. {error}. Import it, or define it above the class."
        ) from error


def _check_parameter(where: str, parameter: inspect.Parameter, hints: Mapping[str, Any]) -> None:
    name = parameter.name
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise UsageError(f"{where}: parameter {parameter} can't be given by name. Spell it out.")
    if name not in hints:
        raise UsageError(
            f"{where}: parameter `{name}` has no type hint. The schema is made from hints. "
            f"Write `{name}: str` or whatever it is."
        )


def _check_hint(where: str, name: str, hint: Any) -> None:
    try:
        TypeAdapter(hint).json_schema()
    except PydanticUserError as error:
        raise UsageError(
            f"{where}: parameter `{name}` has a type hint that JSON has no schema for. "
            "Use str, int, float, bool, Literal, lists, dicts, dataclasses or pydantic models."
        ) from error


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description before the first section, and the entries of `Args:`."""
    summary: list[str] = []
    described: dict[str, str] = {}
    section = current = ""
    for line in text.splitlines():
        head = _SECTION.match(line)
        entry = _ARGUMENT.match(line.strip())
        if head:
            section = head[1]
        elif not section:
            summary.append(line)
        elif section in ("Args", "Arguments") and entry:
            current = entry[1]
            described[current] = entry[2]
        elif section in ("Args", "Arguments") and current and line.strip():
            described[current] += f" {line.strip()}"
    return "\n".join(summary).strip(), described


def _untitled(schema: Any) -> Any:
    """A schema without pydantic's titles, which only cost tokens."""
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            out[key] = {name: _untitled(inner) for name, inner in value.items()}
        elif key in ("default", "enum", "const", "examples"):
            out[key] = value
        elif key != "title":
            out[key] = _untitled(value)
    return out
