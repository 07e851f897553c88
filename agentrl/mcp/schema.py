"""Arguments against the JSON schema of an MCP tool.

In    a tool's schema, kept as its server wrote it
Out   arguments that fit it and can be sent, or BadArguments in words
Not   schemas that refer to other documents: nothing is fetched; nor names and texts against
      patterns that take a policy's words longer than linear time: those are left to the server
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from pydantic_core import SchemaError as PatternError
from pydantic_core import SchemaValidator, core_schema
from referencing import Registry

from agentrl.errors import BadArguments, UsageError

_OPEN = ("additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames")
_COMBINED = ("allOf", "anyOf", "oneOf", "if", "$ref", "$dynamicRef", "dependentSchemas")
MAX_ERRORS = 20
"""That are looked for."""


def checker(where: str, name: str, schema: Mapping[str, Any]) -> Callable[..., dict[str, Any]]:
    """A check of arguments for one tool.

    A name that the schema does not list is refused where it says nothing about others: a
    server would pass it over, and the policy would not learn that it has no effect.

    Raises:
        UsageError: The schema is none, or needs another document.
    """
    cls = validator_for(schema, default=Draft202012Validator)
    try:
        cls.check_schema(schema)
    except SchemaError as error:
        raise UsageError(
            f"{where}: its schema is not valid ({error.message[:200]}). "
            "Mend the server, or leave the tool out with only."
        ) from error
    if outside := next((r for r in _references(schema) if not r.startswith("#")), None):
        raise UsageError(
            f"{where}: its schema refers to {outside[:200]}, which is not fetched. "
            "Leave the tool out with only."
        )
    silent = not any(key in schema for key in (*_OPEN, *_COMBINED))
    validator: Validator = _linear(cls)(schema, registry=Registry())
    return partial(_check, name, validator, silent)


def _check(
    name: str, validator: Validator, silent: bool, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    given = dict(arguments)
    schema: Any = validator.schema
    listed = schema.get("properties", {})
    said = _unsendable(given)
    if silent and not said:
        said = [f"{key[:80]}: there is no such parameter" for key in given if key not in listed]
    if not said:
        some = islice(validator.iter_errors(given), MAX_ERRORS)
        errors = sorted(some, key=lambda error: list(map(str, error.path)))
        said = [_told(list(error.path), error.message) for error in errors[:3]]
    if not said:
        return given
    known = ", ".join(listed) or "none"
    raise BadArguments(f"{name}: bad arguments. {'; '.join(said[:3])}. Parameters: {known[:300]}.")


def _told(path: list[str | int], message: str) -> str:
    """A complaint, without the whole of what it is about."""
    shown = message if len(message) <= 160 else f"{message[:60]} ... {message[-90:]}"
    return f"{'.'.join(map(str, path))[:80]}: {shown}" if path else shown


def _unsendable(arguments: dict[str, Any]) -> list[str]:
    """What JSON has no word for: one such message would end the whole session."""
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return ["they hold half a character, a lone surrogate"]
    except (ValueError, TypeError, RecursionError) as error:
        return [f"they are not JSON: {error}"]
    return []


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


@cache
def _linear(cls: type[Validator]) -> Callable[..., Validator]:
    """A validator whose time grows with what it is given, and no faster."""
    others = cls.VALIDATORS["additionalProperties"]

    def additional(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
        if "patternProperties" not in schema:
            yield from others(validator, rule, value, schema) or ()

    rules = {"pattern": _pattern, "uniqueItems": _unique, "additionalProperties": additional}
    # They match names that the policy chose with patterns of any kind.
    unknown = dict.fromkeys(("patternProperties", "unevaluatedProperties"), _left_to_the_server)
    extended: Callable[..., Validator] = extend(cls, rules | unknown)
    return extended


def _left_to_the_server(*_: Any) -> Iterator[ValidationError]:
    yield from ()


def _pattern(_v: Any, pattern: str, value: Any, _s: Any) -> Iterator[ValidationError]:
    matcher = _matcher(pattern)
    if isinstance(value, str) and matcher and not matcher.isinstance_python(value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


@cache
def _matcher(pattern: str) -> SchemaValidator | None:
    """What matches a pattern in linear time; None for one that looks around or back."""
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, strict=True))
    except PatternError:
        return None


def _unique(_v: Any, wanted: bool, value: Any, _s: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(value, list) and len(set(map(_frozen, value))) < len(value):
        yield ValidationError(f"{value!r} has non-unique elements")


def _frozen(value: Any) -> Any:
    """Equal where JSON values are: 1 is 1.0, and true is not 1."""
    if isinstance(value, Mapping):
        return frozenset((key, _frozen(inner)) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return (type(value), value) if isinstance(value, bool) else value
