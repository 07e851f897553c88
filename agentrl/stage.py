"""The environment's side of an episode, whoever its policy is.

In    an environment of its own, seconds
Out   its opening, its end, its release, each within the time that it may take
Not   turns: episode.py and dialogue.py play them
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault
from agentrl.message import Message
from agentrl.scoring import EpisodeEnd
from agentrl.task import Task
from agentrl.trajectory import Branch, Stop
from agentrl.unbroken import unbroken

T = TypeVar("T")
LETTING_GO = 5.0
"""Seconds that an environment has to release what it holds after its episode was cancelled."""


async def reset(
    env: ToolEnv, task: Task, seed: int, split: str, *, left: float, timeout: float
) -> Sequence[Message]:
    """The episode's opening.

    Args:
        env: Of this episode alone.
        task: What is played.
        seed: Of the episode.
        split: Where the task is from.
        left: Seconds until the episode's time is up.
        timeout: Seconds that it had in all, for the message.

    Raises:
        EnvironmentFault: `start` broke or took too long.
    """
    try:
        opening, _ = await within(
            left, env.areset(seed=seed, options={"task": task, "split": split})
        )
    except TimeoutError:
        raise EnvironmentFault(f"reset took over {timeout} s") from None
    return opening


async def end(env: ToolEnv, stop: Stop, branches: Sequence[Branch], timeout: float) -> EpisodeEnd:
    """End an episode from outside and score it.

    Raises:
        EnvironmentFault: scoring took too long.
    """
    try:
        async with asyncio.timeout(timeout):
            return await env.aend(stop, branches=branches)
    except TimeoutError:
        raise EnvironmentFault(f"reward took over {timeout} s") from None


async def release(env: ToolEnv, found: EpisodeEnd, timeout: float) -> EpisodeEnd:
    """Let go of what the episode held; where that breaks, the next episode cannot be trusted."""
    try:
        await unbroken(asyncio.wait_for(env.arelease(), timeout), LETTING_GO)
    except (EnvironmentFault, TimeoutError) as fault:
        return EpisodeEnd(stop=Stop.ENV_ERROR, problem=str(fault) or "release took too long")
    return found


async def within(left: float, work: Awaitable[T]) -> T:
    """Wait for work until the episode's time is up; then TimeoutError."""
    async with asyncio.timeout(max(0.001, left)):
        return await work
