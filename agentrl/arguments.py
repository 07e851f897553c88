"""Parameters of a tool → what a policy is told about them, and the check of what it writes.

In    a method with type hints and a docstring
Out   a JSON schema; arguments as the types that the hints name, or BadArguments
Not   a sandbox: a validator of an author's own model is run like any of their code
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Collection, Mapping
from types import FunctionType, UnionType
from typing import Annotated, Any, Literal, Union

from annotated_types import BaseMetadata, Predicate
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from agentrl.errors import BadArguments, UsageError

_SECTION = re.compile(r"^(Args|Arguments|Returns|Raises|Yields|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"^(\w+)(?: \([^)]*\))?:\s*(.*)$")

_SIMPLE = (str, int, float, bool, type(None), list, tuple, dict, Any)


def check(name: str, model: type[BaseModel], arguments: Mapping[str, Any]) -> dict[str, Any]:
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


def model_of(where: str, method: FunctionType, described: Mapping[str, str]) -> type[BaseModel]:
    """A pydantic model of the parameters, by alias: a tool's `json` or `copy` is as good a name."""
    hints = _hints(where, method)
    fields: dict[str, Any] = {}
    for i, parameter in enumerate(list(inspect.signature(method).parameters.values())[1:]):
        _check_parameter(where, parameter, hints)
        _check_hint(where, parameter.name, hints[parameter.name])
        default = ... if parameter.default is parameter.empty else parameter.default
        # Only what is known: a None would hide the description of an Annotated hint.
        said: Any = (
            {"description": described[parameter.name]} if parameter.name in described else {}
        )
        field = Field(default, alias=parameter.name, **said)
        fields[f"a{i}"] = (_numeric(hints[parameter.name]), field)
    config = ConfigDict(extra="forbid", allow_inf_nan=False)
    return create_model(where, __config__=config, **fields)


def misfit(function: Any, name: str, value: Any) -> str:
    """Why a value is none that a parameter's hint allows; empty where it is, or none can tell."""
    try:
        adapter = TypeAdapter(typing.get_type_hints(function, include_extras=True)[name])
    except (KeyError, NameError, TypeError, PydanticUserError):
        return ""
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        return str(error.errors(include_url=False, include_context=False)[0]["msg"]).rstrip(".")
    return ""


def hint_of(cls: type, name: str) -> Any:
    """The hint of a parameter of a class; None where there is none to read."""
    try:
        return typing.get_type_hints(cls.__init__).get(name)  # type: ignore[misc]
    except (NameError, TypeError):
        return None


def is_plain(model: type[BaseModel]) -> bool:
    """Whether no parameter's hint brings code of its author's along, such as a validator."""
    return all(
        _is_plain(field.annotation) and all(map(_is_known, field.metadata))
        for field in model.model_fields.values()
    )


def _is_plain(hint: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _is_plain(inner[0]) and all(map(_is_known, hint.__metadata__))
    if origin in (Union, UnionType, list, tuple, dict):
        return all(part is ... or _is_plain(part) for part in inner)
    return origin is Literal or hint in _SIMPLE


def _is_known(constraint: Any) -> bool:
    """Bounds, lengths and the like; patterns are matched in linear time."""
    if isinstance(constraint, FieldInfo):
        return constraint.default_factory is None and all(map(_is_known, constraint.metadata))
    if isinstance(constraint, BeforeValidator):
        return constraint.func is _no_bool
    return isinstance(constraint, BaseMetadata | str) and not isinstance(constraint, Predicate)


def _numeric(hint: Any) -> Any:
    """The hint, whose numbers no longer take true and false: Python counts those as 1 and 0."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in (int, float) or (origin is Annotated and inner[0] in (int, float)):
        # Behind the constraints of the hint, which it would hide: the last one looks first.
        return Annotated[hint, BeforeValidator(_no_bool)]
    if origin is Annotated:
        return Annotated[_numeric(inner[0]), *hint.__metadata__]
    if origin in (Union, UnionType):
        return Union[tuple(map(_numeric, inner))]  # noqa: UP007 (made at run time)
    if isinstance(origin, type) and issubclass(origin, Collection):
        generic: Any = origin
        return generic[tuple(part if part is ... else _numeric(part) for part in inner)]
    return hint


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("a_number", "Input should be a number, not true or false")
    return value


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
            f"{where}: parameter `{name}` has a type hint that JSON has no schema for "
            f"({str(error).splitlines()[0]}). Use str, int, float, bool, Literal, lists, dicts, "
            "dataclasses or pydantic models."
        ) from error


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
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


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """JSON schema of the arguments, under the names that the policy gives."""
    schema: dict[str, Any] = _untitled(model.model_json_schema(by_alias=True))
    return schema


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
