"""A tool as a person calls it.

In    its schema, as a policy reads it; a call that did not work
Out   a line with its parameters, a line to type, a hint
Not   a check: the tool refuses what it does not take
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.errors import suggestion

Schemas = Mapping[str, Mapping[str, Any]]
"""Tools by name."""


def signature(name: str, schema: Mapping[str, Any]) -> str:
    """Name and parameters with their types; those that may be left out have their default."""
    needed = schema["parameters"].get("required", ())
    properties: Mapping[str, Any] = schema["parameters"].get("properties", {})
    return f"{name}({', '.join(_parameter(k, p, k in needed) for k, p in properties.items())})"


def usage(name: str, schema: Mapping[str, Any]) -> str:
    """What to type."""
    needed = schema["parameters"].get("required", ())
    return " ".join(["/call", name, *(f"{key}=..." for key in needed)])


def hint(name: str, status: str, keys: Sequence[str], schemas: Schemas) -> str:
    """What would have worked; empty where the call was taken, or has been told already."""
    if status != "bad_arguments" or name not in schemas:
        return ""
    properties = schemas[name]["parameters"].get("properties", {})
    odd = next((key for key in keys if key not in properties), None)
    near = suggestion(odd, properties) if odd is not None else ""
    told = f"{signature(name, schemas[name])}. Type {usage(name, schemas[name])}"
    return f"{near} {told}".strip()


def _parameter(key: str, schema: Mapping[str, Any], needed: bool) -> str:
    kinds = schema.get("type") or "/".join(
        str(one.get("type", "any")) for one in schema.get("anyOf", ())
    )
    text = f"{key}: {kinds}" if kinds and isinstance(kinds, str) else key
    if needed:
        return text
    return f"{text} = {schema['default']!r}" if "default" in schema else f"{text}, optional"
