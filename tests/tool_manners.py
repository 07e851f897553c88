"""What every tool owes a policy that writes nonsense: a message; `check_manners` for any box."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agentrl.calling import run_calls
from agentrl.message import ToolCall, ToolOutcome
from agentrl.task import Task
from agentrl.toolbox import Toolbox
from agentrl.tooling import ToolSpec

MAX_CHARS = 8000
MAX_MESSAGE = 1000
"""Characters of a refusal; it must not hand back the megabyte that it refuses."""
ODD = "é漢字🙂 \u202e\x00\ud800 ' \" ; -- %s {} \\ \u2028"
HUGE = "x" * 1_000_000
WRONG = (None, True, -1, 10**30, 2.5, float("nan"), float("inf"), "x", "", [], [1], {}, {"a": 1})
_SAMPLES = {"string": "x", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}


async def wait_for(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


@contextmanager
def started(box: Toolbox, task: Task | None = None) -> Iterator[Toolbox]:
    """A box within an episode."""
    asyncio.run(wait_for(box.start(task or Task("?"))))
    try:
        yield box
    finally:
        asyncio.run(wait_for(box.release()))


def call(box: Toolbox, name: str, /, **arguments: Any) -> ToolOutcome:
    """What a policy hears after one call."""
    return calls(box, ToolCall(name, arguments))[0]


def calls(box: Toolbox, *wanted: ToolCall) -> tuple[ToolOutcome, ...]:
    """What a policy hears after the calls of one turn."""
    return asyncio.run(run_calls(box.tools(), wanted, max_chars=MAX_CHARS))[0]


def check_manners(box: Toolbox) -> None:
    """Every tool of a box within an episode answers whatever it is called with."""
    for spec in box.tools().values():
        for label, arguments, statuses in bad_arguments(spec):
            (outcome,) = calls(box, ToolCall(spec.name, arguments))
            said = f"{spec.name}, {label}: {outcome.status}: {outcome.content[:200]!r}"
            assert outcome.status in statuses, said
            assert outcome.content.strip(), said
            limit = MAX_CHARS if outcome.status == "ok" else MAX_MESSAGE
            assert len(outcome.content) <= limit, said
            outcome.content.encode()


def bad_arguments(spec: ToolSpec) -> Iterator[tuple[str, dict[str, Any], tuple[str, ...]]]:
    """What is wrong, the arguments, and the outcomes that are right."""
    refused, anything = ("bad_arguments",), ("ok", "error", "bad_arguments")
    good = sample(spec.parameters)
    for name in spec.parameters.get("required", []):
        yield f"without {name}", {k: v for k, v in good.items() if k != name}, refused
    yield "with an argument that it has not", {**good, "nonsense": 1}, refused
    for name, schema in spec.parameters.get("properties", {}).items():
        for value in WRONG:
            wrong = not _fits(schema.get("type"), value)
            yield f"{name}={value!r}", {**good, name: value}, refused if wrong else anything
        for text in (ODD, HUGE, ODD * 10_000):
            right = anything if schema.get("type", "string") == "string" else refused
            yield f"{name}={text[:20]!r}", {**good, name: text}, right
        yield f"{name} nested", {**good, name: _nested(500)}, anything


def sample(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the right types."""
    required = schema.get("required", [])
    return {name: _value(schema["properties"][name]) for name in required}


def _value(schema: Mapping[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    return schema.get("minimum", _SAMPLES.get(schema.get("type", "string"), "x"))


def _fits(kind: Any, value: Any) -> bool:
    """Whether a value may be of a type; only for plain types is the answer ever no."""
    if kind == "string":
        return isinstance(value, str)
    if kind == "array":
        return isinstance(value, list)
    if kind == "object":
        return isinstance(value, dict)
    return True


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value
