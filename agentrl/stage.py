"""The environment's side of an episode that somebody else's policy plays.

In    an environment of its own, a stage with limits and a clock
Out   its opening, its end, its release, each within the time that an episode may take
Not   turns: dialogue.py plays them
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from agentrl.env import ToolEnv
from agentrl.episode import Limits
from agentrl.errors import EnvironmentFault
from agentrl.message import Message
from agentrl.scoring import EpisodeEnd
from agentrl.task import Task
from agentrl.trajectory import Branch, Stop

T = TypeVar("T")


class Stage(Protocol):
    """What all episodes of a phase share."""

    @property
    def limits(self) -> Limits:
        """What an episode may use."""
        ...

    @property
    def split(self) -> str:
        """Where its tasks are from."""
        ...

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds, from any beginning."""
        ...


async def reset(
    env: ToolEnv, task: Task, seed: int, stage: Stage, deadline: float
) -> Sequence[Message]:
    """The episode's opening.

    Raises:
        EnvironmentFault: `start` broke or took too long.
    """
    options = {"task": task, "split": stage.split}
    try:
        opening, _ = await within(deadline, stage, env.areset(seed=seed, options=options))
    except TimeoutError:
        raise EnvironmentFault(f"reset took over {stage.limits.timeout} s") from None
    return opening


async def end(
    env: ToolEnv, stage: Stage, stop: Stop, branches: Sequence[Branch] = ()
) -> EpisodeEnd:
    """End an episode from outside and score it.

    Raises:
        EnvironmentFault: scoring took too long.
    """
    try:
        return await asyncio.wait_for(env.aend(stop, branches=branches), stage.limits.timeout)
    except TimeoutError:
        raise EnvironmentFault(f"reward took over {stage.limits.timeout} s") from None


async def release(env: ToolEnv, stage: Stage, end: EpisodeEnd) -> EpisodeEnd:
    """Let go of what the episode held; where that breaks, the next episode cannot be trusted."""
    try:
        await asyncio.wait_for(env.arelease(), stage.limits.timeout)
    except (EnvironmentFault, TimeoutError) as fault:
        return EpisodeEnd(stop=Stop.ENV_ERROR, problem=str(fault) or "release took too long")
    return end


async def within(deadline: float, stage: Stage, work: Awaitable[T]) -> T:
    """Wait for work until the episode's time is up; then TimeoutError."""
    return await asyncio.wait_for(work, max(0.001, deadline - stage.clock()))
