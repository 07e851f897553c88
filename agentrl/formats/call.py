"""One call as it was written → a ToolCall, sound or with its problem.

In    a decoded value, and which keys a format gives a call
Out   ToolCall; where it is malformed, a bounded problem and no arguments
Not   a repair shop: what is not exactly a call is refused in words, never guessed
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentrl.formats.strict import kind
from agentrl.message import FinishReason, ToolCall

MAX_PROBLEM = 200
"""Characters of a problem, the echo of the policy's own words included; a format's example
of a right call comes on top."""
MAX_NAME = 80
"""Characters of the name of a call that was refused."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The keys of a call that is one JSON object."""

    arguments: str = "arguments"
    other: str = "parameters"
    """What the arguments are called elsewhere; the policy is told of the mix-up."""
    extra: tuple[str, ...] = ()
    """Keys with a string that may stand beside the two, and are not part of the call."""
    example: str = ""
    """What a right call looks like."""


def call_of(value: Any, source: str, shape: Shape) -> ToolCall:
    """The call that a JSON value is."""
    why = _objection(value, shape)
    if why:
        return malformed(name_of(value), why, source, shape.example)
    return ToolCall(value["name"], value[shape.arguments])


def call_with(name: str, arguments: Any, source: str, example: str) -> ToolCall:
    """The call of a format that writes the name outside the JSON."""
    if not name:
        return malformed("", "the name of the tool is missing", source, example)
    if not isinstance(arguments, dict):
        why = f"the arguments must be a JSON object, not {kind(arguments)}"
        return malformed(name, why, source, example)
    return ToolCall(name, arguments)


def malformed(name: str, why: str, source: str, example: str = "") -> ToolCall:
    """A call that can't be run: why, an echo of it, and what a right one looks like."""
    echo = " ".join(source[: 2 * MAX_PROBLEM].split())
    problem = f"{why}: {echo}"
    if len(problem) > MAX_PROBLEM:
        problem = problem[: MAX_PROBLEM - 3] + "..."
    if example:
        problem += f" A right call: {example}"
    return ToolCall(encodable(name[:MAX_NAME]), {}, encodable(problem))


def encodable(text: str) -> str:
    """The text without halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode()


def name_of(value: Any) -> str:
    """The name in a JSON value that is no call; empty where there is none."""
    name = value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else ""


def cut_or(why: str, at_end: bool, finish_reason: FinishReason) -> str:
    """The reason, or that the turn was cut, where that is the reason."""
    if at_end and finish_reason == "length":
        return "the turn was cut by its length limit inside the call"
    return why


def _objection(value: Any, shape: Shape) -> str:
    """What keeps a JSON value from being a call; empty where nothing does."""
    key = shape.arguments
    if not isinstance(value, dict):
        return f"expected one JSON object, not {kind(value)}"
    if not isinstance(value.get("name"), str) or not value["name"]:
        return "`name` is missing or is not a string"
    known = ("name", key, *shape.extra)
    extra = next((k for k in value if k not in known), None)
    if key not in value:
        where = f" instead of `{extra}`" if extra == shape.other else ", {} if there are none"
        return f"`{key}` is missing: use `{key}`{where}"
    if not isinstance(value[key], dict):
        return f"`{key}` must be a JSON object, not {kind(value[key])}"
    if extra is not None:
        return f"only `name` and `{key}` may stand there, not `{extra[:40]}`"
    odd = next((k for k in shape.extra if not isinstance(value.get(k, ""), str)), None)
    return f"`{odd}` must be a string, not {kind(value[odd])}" if odd else ""
