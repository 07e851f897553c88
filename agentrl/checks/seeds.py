"""Checks of seeds: the same seed gives the same episode, whoever else plays.

In    a Bench
Out   Problems
Not   wall-clock time: what depends on it is found only where it shows at once
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np

from agentrl.checks.bench import SEED, Bench
from agentrl.checks.report import Problem
from agentrl.checks.surroundings import random_states
from agentrl.env import ToolEnv

MOST_SCRIPTS = 3
"""What is said: a solution, its last turn alone, and each tool once."""
_OWN = "Use self.np_random, or a generator of the task's own."


def seeds(bench: Bench) -> Iterator[Problem]:
    """The same seed gives the same task and episode: alone, again, and beside another."""
    for number in range(MOST_SCRIPTS):
        found = list(_differing(bench, *asyncio.run(_thrice(bench, number))))
        if found:
            yield from found
            return


def _differing(
    bench: Bench, alone: list[Any], again: list[Any], beside: list[Any]
) -> Iterator[Problem]:
    for label, rows in (
        ("in an instance that played before", again),
        ("while another instance played", beside),
    ):
        for position, (first, second) in enumerate(zip(alone, rows, strict=False)):
            if repr(first) != repr(second):
                what = "another opening" if position == 0 else f"another turn {position}"
                writers = ("start", "__init__", "tasks") if position == 0 else ("start", "__init__")
                yield Problem(
                    bench.subject.line(*writers),
                    f"the same seed gave {what} {label}: {shown(first, second)}",
                    f"Set all state in start, keep none on the class. {_OWN}",
                )
                return
        if len(alone) != len(rows):
            yield Problem(
                bench.subject.line("start", "__init__"),
                f"the same seed gave {len(rows) - 1} turns {label}, and {len(alone) - 1} alone.",
                f"Set all state in start. {_OWN}",
            )
            return


def randomness(bench: Bench) -> Iterator[Problem]:
    """Global random generators are left alone."""
    bench.renderer  # noqa: B018 (loading it is not the environment's doing)
    before = random_states()
    env = bench.subject.make()
    for task in bench.tasks[:2]:
        bench.play(task, bench.words(task), env)
    after = random_states()
    for name, state in before.items():
        if repr(after.get(name)) != repr(state):
            yield Problem(
                bench.subject.line("start", "tasks"),
                f"it draws from or seeds the global generator of {name}; other episodes would "
                "draw other numbers.",
                _OWN,
            )


async def _thrice(bench: Bench, number: int) -> tuple[list[Any], list[Any], list[Any]]:
    """The rows of a script: in a fresh instance, in one that played the first, beside another."""
    env = bench.subject.make()
    _shake(1)
    alone = [row async for row in _rows(bench, bench.subject.make(), SEED, number)]
    _shake(2)
    async for _ in _rows(bench, env, SEED):
        pass
    again = [row async for row in _rows(bench, env, SEED, number)]
    _shake(3)
    other = _rows(bench, bench.subject.make(), SEED + 1)
    beside = []
    async for row in _rows(bench, bench.subject.make(), SEED, number):
        beside.append(row)
        await anext(other, None)
    async for _ in other:
        pass
    return alone, again, beside


async def _rows(bench: Bench, env: ToolEnv, seed: int, number: int = 0) -> AsyncIterator[Any]:
    """What an episode says: its opening with the task, then every turn."""
    try:
        opening, info = await env.areset(seed=seed)
        assert env.task is not None
        scripts = bench.scripts(env.task, env._offered())
        if number >= len(scripts):
            return
        words = scripts[number]
        yield opening, info["task_id"], env.tool_schemas()
        for turn in range(env.max_turns):
            news, reward, *ends, info = await env.astep(words[min(turn, len(words) - 1)])
            yield news, reward, ends, info["reward_parts"]
            if env.end is not None:
                return
    finally:
        await env.arelease()


def _shake(seed: int) -> None:
    """What draws from global generators draws something else each time."""
    random.seed(seed)
    np.random.seed(seed)


def shown(first: Any, second: Any) -> str:
    """The first place where two rows differ."""
    a, b = repr(first), repr(second)
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0)
    return f"{a[max(0, at - 20) : at + 20]!r} and {b[max(0, at - 20) : at + 20]!r}."
