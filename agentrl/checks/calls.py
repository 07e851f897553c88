"""Calls that a policy might write: sensible ones, and nonsense of every kind.

In    a tool
Out   arguments, with what is wrong about them; calls as Hermes text
Not   an attack on what a tool does with sound arguments
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agentrl.tooling import ToolSpec

ODD = "é漢字🙂 \u202e\x00\ud800 ' \" ; -- %s {} \\ \u2028"
"""Text that breaks careless formats, encodings and queries."""
HUGE = "x" * 50_000
"""Below the default bound on arguments, so that tools see it."""
DEEPEST = 8
"""Levels of values inside each other; one that holds itself ends there."""
MOST_CHOICES = 20
"""Of a list of choices, so many are tried."""
_SAMPLES = {"string": "1", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
_WRONG: tuple[Any, ...] = (None, -1, 10**30, [], [1], {"a": 1}, "x")


def hermes(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as Hermes writes it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def sample(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the right types, as far as a schema tells; only those that must be given."""
    value: dict[str, Any] = _value({**parameters, "type": "object"}, parameters)
    return value


def sensible(spec: ToolSpec) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls that the schema allows, as far as it tells: bare, full, and each choice of each."""
    right = sample(spec.parameters)
    properties = spec.parameters.get("properties", {})
    yield "the least arguments" if right else "no arguments", right
    full = {name: _value(schema, spec.parameters) for name, schema in properties.items()}
    if full != right:
        yield "every argument", full
    for name, schema in properties.items():
        for value in _choices(schema, spec.parameters):
            if value != right.get(name, full[name]):
                yield f"{name}={value!r}", {**right, name: value}


def nonsense(spec: ToolSpec) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is odd about a call, and its arguments."""
    right = sample(spec.parameters)
    yield "an argument that it has not", {**right, "nonsense": 1}
    for name in spec.parameters.get("required", ()):
        yield f"{name} missing", {k: v for k, v in right.items() if k != name}
    for name in spec.parameters.get("properties", {}):
        for value in _WRONG:
            yield f"{name}={value!r}", {**right, name: value}
        for label, text in (("empty", ""), ("huge", HUGE), ("not ASCII", ODD)):
            yield f"{name} {label}", {**right, name: text}


def _value(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> Any:
    """A value that a schema allows; `root` has what it refers to by name."""
    schema = _followed(schema, root)
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    for key in ("const", "default", "minimum"):
        if key in schema:
            return schema[key]
    for inner in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        return _value(inner, root, depth + 1)
    kind = schema.get("type", "string")
    if depth < DEEPEST and kind == "object":
        inside = schema.get("properties", {})
        names = schema.get("required", ())
        return {name: _value(inside.get(name, {}), root, depth + 1) for name in names}
    if depth < DEEPEST and kind == "array":
        items = schema.get("prefixItems") or [schema.get("items", {})] * schema.get("minItems", 0)
        return [_value(item, root, depth + 1) for item in items]
    return _plain(schema, kind)


def _plain(schema: Mapping[str, Any], kind: str) -> Any:
    if "exclusiveMinimum" in schema:
        return schema["exclusiveMinimum"] + 1
    value = _SAMPLES.get(kind, "1")
    if isinstance(value, str):
        return value * max(1, schema.get("minLength", 1))
    highest = schema.get("maximum", schema.get("exclusiveMaximum", 2) - 1)
    return min(value, highest) if kind in ("integer", "number") else value


def _choices(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Any]:
    """Values that a schema allows beside the first, where they are few; and 0."""
    schema = _followed(schema, root)
    yield from schema.get("enum", ())[:MOST_CHOICES]
    for inner in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield _value(inner, root)
        yield from _choices(inner, root)
    kind = schema.get("type")
    if kind == "boolean":
        yield from (True, False)
    elif kind in ("integer", "number") and not _bounded(schema):
        yield 0
    elif kind == "array" and "items" in schema and schema.get("maxItems", 2) > 1:
        yield [_value(schema["items"], root)] * max(2, schema.get("minItems", 0))


def _bounded(schema: Mapping[str, Any]) -> bool:
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    high = schema.get("maximum", schema.get("exclusiveMaximum", 1) - 1)
    return bool(low > 0 or high < 0)


def _followed(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a schema refers to, in place of it."""
    reference = schema.get("$ref", "")
    if not reference.startswith("#/$defs/"):
        return schema
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    return {**root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {}), **rest}
