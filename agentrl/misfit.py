"""Why a setting does not fit, in the spelling of whoever gave it.

In    one error of pydantic's, how each given setting was written, what settings are for
Out   one line: where, what, why
Not   a parser: settings.py knows where values came from
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agentrl.errors import suggestion

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "string": "text"}
_KINDS |= {"tuple": "a list"}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}


def retell(error: ErrorDetails, wheres: Mapping[str, str], described: Mapping[str, str]) -> str:
    """The message for a person.

    Args:
        error: What pydantic found.
        wheres: Name of each given setting to how a message about it begins, oldest first.
        described: Name of each setting to its description.
    """
    # A value inside a list is told by the list.
    name = ".".join(part for part in error["loc"] if isinstance(part, str))
    said = _what(error)
    purpose = f" {name}: {described[name]}" if described.get(name) else ""
    return f"{_where(name, wheres, said)}: {said}{purpose}"


def _where(name: str, wheres: Mapping[str, str], said: str) -> str:
    """Settings that contradict each other: of those that are spoken of, the one given last."""
    inside = {given: where for given, where in wheres.items() if f"{given}.".startswith(f"{name}.")}
    among = inside or wheres
    spoken = {word.replace("-", "_") for word in re.findall(r"\w[\w-]*", said)}
    named = [where for given, where in among.items() if given.rpartition(".")[2] in spoken]
    return (named or list(among.values()) or [name])[-1]


def _what(error: ErrorDetails) -> str:
    """What is wrong, in plain words where the kind of error is known."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"must be {words} {context[key]:g}."
    if kind == "literal_error":
        return _choice(str(error["input"]), str(context["expected"]))
    if kind.partition("_")[0] in _KINDS:
        return f"must be {_KINDS[kind.partition('_')[0]]}."
    return f"{error['msg']}."


def _choice(given: str, expected: str) -> str:
    """One of several words was expected; pydantic writes them as 'a', 'b' or 'c'."""
    known = [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
    listed = f"{', '.join(known[:-1])} or {known[-1]}" if known[1:] else known[0]
    return f"not one. {suggestion(given, known, f'Choose {listed}.')}"
