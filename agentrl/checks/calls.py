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
_SAMPLES = {"string": "1", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
_WRONG: tuple[Any, ...] = (None, -1, 10**30, [], [1], {"a": 1}, "x")


def hermes(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as Hermes writes it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def sample(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the right types, as far as a schema tells."""
    properties = parameters.get("properties", {})
    return {name: _value(properties.get(name, {})) for name in parameters.get("required", ())}


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


def _value(schema: Mapping[str, Any]) -> Any:
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    for key in ("const", "default", "minimum"):
        if key in schema:
            return schema[key]
    for inner in schema.get("anyOf", ()):
        return _value(inner)
    return _SAMPLES.get(schema.get("type", "string"), "1")
