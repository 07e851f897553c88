"""Checks of tools: they answer nonsense in words, and come back in their time.

In    a Bench
Out   Problems; Skip where there are no tools
Not   a wait for each time limit: a short one is put in its place
"""

from __future__ import annotations

import asyncio
import inspect
import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from agentrl.calling import run_calls
from agentrl.checks.bench import Bench, Skip
from agentrl.checks.calls import nonsense, sample, sensible
from agentrl.checks.report import Problem
from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault
from agentrl.message import ToolCall
from agentrl.tooling import ToolSpec
from agentrl.workers import Share

LONGEST = 3600.0
"""Seconds; a tool with a higher limit has none in practice."""
SHORT = 0.001
"""Seconds, in place of a tool's limit."""
STALL = 1.0
"""Seconds that a tool may keep the event loop from everyone."""
MOST_TURNS = 1_000_000
PATIENCE = 2.0
"""Seconds that a thread whose time is up may go on."""
_ENDLESS = "it runs on"
_BOUND = "Bound what it loops over and waits for."
_ANSWER = "Raise agentrl.ToolError, or return, what the policy can use."
_ADDRESS = re.compile(r" at 0x[0-9a-f]{6,}>")


def told(bench: Bench) -> Iterator[Problem]:
    """Every tool says what it does, and its parameters what they are."""
    for name, spec in _specs(bench).items():
        where = bench.subject.tool_line(spec)
        if not spec.description.strip():
            yield Problem(where, f"the tool {name} has no description.", "Write its docstring.")
        mute = [
            key
            for key, schema in spec.parameters.get("properties", {}).items()
            if not {"type", "anyOf", "enum", "const", "$ref", "allOf"} & set(schema)
        ]
        if mute:
            yield Problem(
                where, f"{name} does not say what {mute[0]} is.", "Give it a more exact type hint."
            )


def arguments(bench: Bench) -> Iterator[Problem]:
    """Missing, extra, wrong, huge and odd arguments are answered in words."""
    count = 0
    for spec in _specs(bench).values():
        tried, why = asyncio.run(_answers(bench, spec))
        count += tried
        if why:
            yield Problem(
                bench.subject.tool_line(spec),
                f"{spec.name} with {why}",
                _BOUND if _ENDLESS in why else _ANSWER,
            )
    bench.notes.append(f"{count} calls")


def limits(bench: Bench) -> Iterator[Problem]:
    """Every tool has a time limit that ends it, and an episode has limits too."""
    for name in ("max_turns", "max_tool_calls"):
        value = getattr(bench.env, name)
        if not (isinstance(value, int) and 0 < value < MOST_TURNS):
            yield Problem(
                bench.subject.line(name),
                f"{name} is {value}: an episode might never end.",
                "Set a whole number that a good episode does not need.",
            )
    for name, spec in bench.specs(bench.tasks[0]).items():
        why = asyncio.run(_unlimited(bench, spec))
        if why:
            yield Problem(bench.subject.tool_line(spec), f"{name} {why[0]}", why[1])


def _specs(bench: Bench) -> Mapping[str, ToolSpec]:
    found = bench.specs(bench.tasks[0])
    if not found:
        raise Skip("it has no tools")
    return found


async def _answers(bench: Bench, spec: ToolSpec) -> tuple[int, str]:
    """How many calls were tried within an episode, and what is wrong with the last one."""
    env, tried = bench.subject.make(), 0
    try:
        await env.areset(seed=0, options={"task": bench.tasks[0]})
        for label, given in (*sensible(spec), *nonsense(spec)):
            tried += 1
            why = await _wrong(env, ToolCall(spec.name, given), spec)
            if why:
                return tried, f"{label}: {why}"
    finally:
        await env.arelease()
    return tried, ""


async def _wrong(env: ToolEnv, call: ToolCall, spec: ToolSpec) -> str:
    """What is wrong with a tool's answer; empty if nothing is."""
    share = Share()
    try:
        (outcome,), _ = await run_calls(
            env._offered(),
            (call,),
            max_chars=env.max_result_chars,
            max_arguments=env.max_argument_chars,
            share=share,
        )
    except EnvironmentFault as fault:
        return f"it broke the episode. {' '.join(str(fault).split())[:200]}"
    if outcome.content.startswith(f"{call.name} failed: ") and outcome.status == "error":
        return f"it raised what is not meant for the policy. {outcome.content[:200]!r}."
    if outcome.status == "ok" and outcome.content == "null":
        return "it returned None."
    if found := _ADDRESS.search(outcome.content):
        return f"its answer holds {found[0].strip()!r}, which is another one each time."
    if outcome.status == "timeout" and await _runs_on(share):
        return f"{_ENDLESS} after its {spec.timeout:g} seconds, and nobody can stop a thread."
    return "" if outcome.content.strip() else "it answered nothing."


async def _runs_on(share: Share) -> bool:
    """Whether a thread that was left behind does not come to its end soon."""
    until = time.monotonic() + PATIENCE
    while share.left and time.monotonic() < until:
        await asyncio.sleep(0.05)
    return bool(share.left)


async def _unlimited(bench: Bench, spec: ToolSpec) -> tuple[str, str] | None:
    """What is wrong with a tool's limit, and what to do."""
    if not (math.isfinite(spec.timeout) and spec.timeout <= LONGEST):
        return f"may take {spec.timeout:g} seconds.", f"Give it a limit up to {LONGEST:g} seconds."
    if inspect.iscoroutinefunction(spec.fn):
        # A busy machine holds the loop up too, but hardly twice.
        held = min([await _held(bench, spec) for _ in range(2)])
        if held > STALL:
            return (
                f"holds up every other episode ({held:.1f} seconds).",
                "Write it without async, so that it runs in a thread, or await what it waits for.",
            )
    return None


async def _held(bench: Bench, spec: ToolSpec) -> float:
    """How long a call keeps the loop from others, in seconds, its time limit being short."""
    env = bench.subject.make()
    await env.areset(seed=0, options={"task": bench.tasks[0]})
    stall = asyncio.create_task(_longest_stall())
    await asyncio.sleep(0)
    try:
        short = {n: replace(s, timeout=SHORT) for n, s in env._offered().items()}
        call = ToolCall(spec.name, sample(spec.parameters))
        with suppress(EnvironmentFault):  # another check tells of it
            await run_calls(short, (call,), max_chars=env.max_result_chars)
    finally:
        stall.cancel()
        held = await stall
        await env.arelease()
    return held


async def _longest_stall() -> float:
    """The longest time that the loop gave no turn, in seconds, until cancelled."""
    longest, last = 0.0, time.monotonic()
    try:
        while True:
            await asyncio.sleep(0.01)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
    except asyncio.CancelledError:
        return max(longest, time.monotonic() - last)
