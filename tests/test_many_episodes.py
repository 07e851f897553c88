"""Many scripted episodes of the environments that need nothing but themselves."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading

import pytest

from agentrl.registry import make
from tests.processes import below

WORDS = (
    "",
    "What is that?",
    "Answer: 7",
    '<tool_call>\n{"name": "read", "arguments": {"page": 1}}',
)


def told(task, seed):
    """What a task is played with: its reference, or words that lead nowhere."""
    return task.reference if seed % 3 else (*WORDS[: 1 + seed % 4], *task.reference[:-1])


async def played(env, task, seed):
    """One episode, as a digest of everything that was said and earned."""
    await env.areset(seed=seed, options={"task": task})
    for text in told(task, seed):
        if env.end is None:
            await env.astep(text)
    said = (env.opening, [turn.messages() for turn in env.turns], env.end and env.end.parts)
    await env.arelease()
    return hashlib.sha256(repr(said).encode()).hexdigest()


async def run(name, count, side_by_side):
    """Digests of episodes, so many at a time, each instance used again."""
    envs = [make(name) for _ in range(side_by_side)]
    source = envs[0].task_source("train")
    out = []
    for first in range(0, count, side_by_side):
        seeds = range(first, min(first + side_by_side, count))
        out += await asyncio.gather(
            *(played(env, source[seed], seed) for env, seed in zip(envs, seeds, strict=False))
        )
    return out


def held():
    """What a process may leave behind."""
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    return files, below(os.getpid()), dict(os.environ)


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["long_log", "search_qa", "shop"])
def test_episodes_leave_nothing_and_are_the_same_alone_and_side_by_side(name, count):
    asyncio.run(run(name, 8, 4))
    before = held()
    alone = asyncio.run(run(name, count, 1))
    threads = threading.active_count()
    assert asyncio.run(run(name, count, 4)) == alone
    assert len(set(alone)) > 0.9 * count
    assert held() == before
    assert threading.active_count() <= threads + 4
