"""Types of parameters that are written as bare text.

In    a parameter's text, its name, the schema of its tool
Out   the value that the text is under that schema
Not   a check: a text that fits no type of its schema stays text, and the tool's own check
      answers it; a parameter that no schema knows stays text too
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentrl.formats.format import Tools
from agentrl.formats.strict import decode_all

_WORDS: dict[str, dict[str, bool | None]] = {
    "null": {"null": None, "None": None},
    "boolean": {"true": True, "True": True, "false": False, "False": False},
}
"""Templates write these as Python does, models as JSON does; neither leaves a doubt."""
_ALL = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_MAX_REFERENCES = 20


def parameters_of(name: str, tools: Tools) -> dict[str, Any]:
    """The schema of a tool's arguments; empty where no tool has that name."""
    for tool in tools:
        function = tool.get("function", tool)
        if function.get("name") == name:
            return dict(function.get("parameters") or {})
    return {}


def value_of(text: str, key: str, schema: Mapping[str, Any]) -> Any:
    """The value that the text is: null, boolean, number, list or object where the schema allows.

    A schema that allows text beside them gets the others where the text is one of them.
    """
    known = schema.get("properties", {}).get(key)
    if known is None:
        return text
    kinds = kinds_of(known, schema)
    word = text.strip()
    for kind, words in _WORDS.items():
        if kind in kinds and word in words:
            return words[word]
    if kinds <= {"string", "null", "boolean"}:
        return text
    found = decode_all(text)
    return text if found.why or not kinds & _kinds_of_value(found.value) else found.value


def kinds_of(schema: Any, root: Mapping[str, Any], depth: int = 0) -> frozenset[str]:
    """JSON types that a schema allows; all of them where it names none."""
    if not isinstance(schema, Mapping) or depth > _MAX_REFERENCES:
        return _ALL
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return kinds_of(root.get("$defs", {}).get(name), root, depth + 1)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            parts = (kinds_of(part, root, depth + 1) for part in schema[union])
            return frozenset().union(*parts)
    if "type" in schema:
        named = schema["type"]
        return frozenset([named] if isinstance(named, str) else named)
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return frozenset().union(*(_kinds_of_value(value) for value in values))
    return _ALL


def _kinds_of_value(value: Any) -> frozenset[str]:
    if value is None:
        return frozenset({"null"})
    if isinstance(value, bool):
        return frozenset({"boolean"})
    kinds = {int: {"integer", "number"}, float: {"number"}, str: {"string"}, list: {"array"}}
    return frozenset(kinds.get(type(value), {"object"}))
