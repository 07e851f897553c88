"""Arguments against the JSON schema of an MCP tool.

In    a tool's schema, kept as its server wrote it
Out   arguments that fit it and can be sent, or BadArguments in words
Not   schemas that refer to other documents: nothing is fetched
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry

from agentrl.errors import BadArguments, UsageError

_OPEN = ("additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames")
_COMBINED = ("allOf", "anyOf", "oneOf", "if", "$ref", "$dynamicRef", "dependentSchemas")


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
        raise UsageError(f"{where}: its schema is not valid: {error.message[:200]}.") from error
    if outside := next((r for r in _references(schema) if not r.startswith("#")), None):
        raise UsageError(f"{where}: its schema refers to {outside[:200]}, which is not fetched.")
    silent = not any(key in schema for key in (*_OPEN, *_COMBINED))
    validator: Validator = cls(schema, registry=Registry())
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
        errors = sorted(validator.iter_errors(given), key=lambda error: list(map(str, error.path)))
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
