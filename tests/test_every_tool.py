"""Every tool that comes with agentrl answers whatever a policy writes, and harms no episode."""

from __future__ import annotations

import asyncio

import pytest

from agentrl.env import ToolEnv
from agentrl.message import AssistantTurn, ToolCall
from agentrl.registry import TOOLBOXES
from agentrl.task import Task

RIGHT = {"string": "1", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
ODD_TEXTS = [
    "",
    " ",
    "žluťoučký 🐎 \u202e\u0000",
    "\u0661+\u0662",
    "x" * 90_000,
    "(" * 5000,
    "';--",
]
ODD_NUMBERS = [0, -1, 10**30, -(10**30)]


def kinds(schema):
    """JSON types that a parameter takes."""
    return [part.get("type") for part in schema.get("anyOf", [schema])]


def cases(spec):
    """Arguments, each with the status that is due; None where the tool may say what it likes."""
    properties = spec.parameters.get("properties", {})
    required = spec.parameters.get("required", [])
    right = {name: RIGHT.get(kinds(properties[name])[0], "1") for name in required}
    yield right, None
    yield {**right, "žádný": 1}, "bad_arguments"
    yield {**right, "k" * 200_000: 1}, "bad_arguments"
    for name in required:
        yield {key: value for key, value in right.items() if key != name}, "bad_arguments"
    for name, schema in properties.items():
        yield {**right, name: "x" * 200_000}, "bad_arguments"
        if "object" not in kinds(schema):
            yield {**right, name: {"a": [1]}}, "bad_arguments"
        odd = ODD_TEXTS if "string" in kinds(schema) else ODD_NUMBERS
        yield from (({**right, name: value}, None) for value in odd)


@pytest.mark.parametrize("name", TOOLBOXES.names())
def test_odd_arguments_are_answered_in_words(name, tmp_path):
    (tmp_path / "a.txt").write_text("one document")
    options = {"search": {"folder": str(tmp_path)}}.get(name, {})

    class Bench(ToolEnv):
        """One toolbox by itself."""

        max_turns = max_tool_calls = 100_000

        def toolboxes(self):
            return [TOOLBOXES.make(name, options)]

    async def main():
        env = Bench()
        await env.areset(options={"task": Task("2+2?")})
        met = []
        for schema in env.tool_schemas():
            spec = env._offered()[schema["function"]["name"]]
            for arguments, due in cases(spec):
                await env.astep(AssistantTurn("", (ToolCall(spec.name, arguments),)))
                assert env.end is None, env.end.problem
                (outcome,) = env.turns[-1].outcomes
                met.append((arguments, due, outcome))
        await env.arelease()
        return met

    for arguments, due, outcome in asyncio.run(main()):
        shown = {str(key)[:40]: str(value)[:40] for key, value in arguments.items()}
        assert outcome.status in ((due,) if due else ("ok", "error", "bad_arguments")), shown
        assert outcome.content, shown
        assert len(outcome.content) <= 8000, shown
        assert "failed: " not in outcome.content or outcome.status == "ok", (shown, outcome.content)
        outcome.content.encode()
