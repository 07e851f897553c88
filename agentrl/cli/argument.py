"""Words → arguments of a tool.

In    `key=value` and `key=@file`, the JSON schema of the tool's parameters
Out   the arguments, each of a type that the schema takes where the words allow it
Not   their check: what does not fit is the tool's to refuse, as it would a policy's
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentrl.errors import UsageError

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
_TYPES |= {dict: "object", type(None): "null"}


def arguments_of(words: Sequence[str], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name.

    A value is text where the parameter takes text, and else what it means as JSON. `@file`
    stands for what is in the file, and `@@` for an @ at the beginning.

    Args:
        words: `key=value` each.
        parameters: JSON schema of all of them.

    Raises:
        UsageError: A word is no `key=value`, a key is there twice, or a file can't be read.
    """
    found: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise UsageError(f"{word}: not an argument. Write key=value, or key=@file.")
        if key in found:
            raise UsageError(f"{word}: {key} is given twice. Give it once.")
        schema = parameters.get("properties", {}).get(key, {})
        found[key] = _value(_text(key, text), set(_types(schema, parameters)))
    return found


def _text(key: str, text: str) -> str:
    if text.startswith("@@") or not text.startswith("@"):
        return text[text.startswith("@@") :]
    path = Path(text[1:]).expanduser()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(
            f"{key}={text}: {path} can't be read ({why}). Name another file, or write @@ for an @."
        ) from error


def _value(text: str, types: set[str]) -> Any:
    """The text, or what it means as JSON where only that is of a type asked for."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    kind = _TYPES[type(value)]
    fits = kind in types or (kind == "integer" and "number" in types) or not types
    return value if (fits and kind != "string") or "string" not in types else text


def _types(
    schema: Mapping[str, Any], root: Mapping[str, Any], seen: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Names of the JSON types that a schema takes; none where it takes everything."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in seen:  # one may refer to itself
            yield from _types(root.get("$defs", {}).get(name, {}), root, seen | {name})
    for inner in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from _types(inner, root, seen)
    values = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])]
    yield from (_TYPES[type(value)] for value in values)
    named = schema.get("type", ())
    yield from (named,) if isinstance(named, str) else named
