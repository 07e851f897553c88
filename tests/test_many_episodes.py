"""Many scripted episodes of every environment that comes along."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
import pkgutil
import threading

import pytest

import agentrl_environments
from agentrl.message import AssistantTurn
from agentrl.registry import make
from agentrl_tools.python import PRELOADED, shared
from tests.boxes import box
from tests.processes import below, living

NEEDS = {
    "bfcl": "bfcl_eval",
    "code_math": "",
    "gsm": "reasoning_gym",
    "long_log": "",
    "search_qa": "bm25s",
    "shop": "",
    "tool_math": "",
}
"""The package beyond the project's own that each is played with."""

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
            *(
                played(env, source[seed % len(source)], seed)
                for env, seed in zip(envs, seeds, strict=False)
            )
        )
    return out


def held():
    """What a process may leave behind, beside other processes."""
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    return files, dict(os.environ)


@pytest.fixture
def prepared():
    """Skips what can't be played here; has what lives as long as the process started."""

    def prepare(name):
        if NEEDS[name] and importlib.util.find_spec(NEEDS[name]) is None:
            pytest.skip(f"{NEEDS[name]} is not installed")
        if name == "code_math":
            with box():
                pass
            shared(preload=PRELOADED).run("1")
        asyncio.run(run(name, 8, 4))

    return prepare


def test_every_environment_that_comes_along_is_played():
    assert set(NEEDS) == {
        module.name
        for module in pkgutil.iter_modules(agentrl_environments.__path__)
        if not module.name.startswith("_")
    }


@pytest.mark.parametrize("count", [40, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NEEDS)
def test_episodes_leave_nothing_and_are_the_same_alone_and_side_by_side(prepared, name, count):
    prepared(name)
    before, processes = held(), below(os.getpid())
    alone = asyncio.run(run(name, count, 1))
    threads = threading.active_count()
    assert asyncio.run(run(name, count, 4)) == alone
    assert len(set(alone)) > 0.9 * count
    assert held() == before
    assert not living(below(os.getpid()) - processes)
    # Four are played at once, and a thread that has just answered is not idle yet.
    assert threading.active_count() <= threads + 2 * 4


@pytest.mark.parametrize("name", NEEDS)
def test_an_answer_that_was_cut_earns_nothing(name):
    if NEEDS[name] and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    env = make(name)
    *before, last = env.task_source("test")[0].reference
    for stop, correct in (("stop", True), ("length", False)):
        if name == "code_math" and stop == "stop":
            continue  # its references need the sandbox, and other tests play them
        env.reset(options={"task": env.task_source("test")[0]})
        for text in before * (stop == "stop"):
            env.step(text)
        *_, info = env.step(AssistantTurn(last, finish_reason=stop))
        assert info["correct"] is correct
    env.close()
