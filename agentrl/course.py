"""Course: a run on its way, whose weights are read, changed and handed over.

In    a world, chosen trajectories
Out   one update at a time; an engine with the newest weights
Not   what is played or chosen, nor in which order things happen (training.py)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from agentrl.chosen import Chosen, samples
from agentrl.clock import Clock
from agentrl.figures import UpdateReport
from agentrl.pipeline import Pipeline
from agentrl.playing import Played
from agentrl.state import Standing
from agentrl.unbroken import unbroken
from agentrl.world import World

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rollout:
    """What the play of one step gave."""

    played: Played
    drawn: Standing
    """What stood for the drawing of tasks when it was played."""
    seconds: float


@dataclass(slots=True)
class Course:
    """A run on its way: its parts, its time, and what is played ahead."""

    world: World
    clock: Clock
    drawing: Standing
    """Ahead of the world's own by what was played and not yet trained on."""
    loaded: int = -1
    """Version of the weights in the engine; -1 where it has none that count."""
    held: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Who holds it reads or changes the learner's weights, and no one else does."""
    pipeline: Pipeline[Rollout] = field(init=False)

    @property
    def ahead(self) -> int:
        """Steps that may be played before they are trained on."""
        return self.world.config.train.max_staleness


async def learn(course: Course, chosen: Chosen) -> UpdateReport | None:
    """One update; nobody reads the weights meanwhile."""
    world, rows = course.world, samples(chosen)
    if not rows:
        return None
    away = apart if course.ahead else at_once
    async with course.held, room(course):
        with course.clock.phase("update"):
            done = await away(partial(world.learner.step, rows, len(chosen.kept)))
        world.standing.version += not done.skipped
    if world.forecast.cap < world.learner.cap:
        world.learner.cap = world.forecast.cap
    return done


@asynccontextmanager
async def room(course: Course) -> AsyncIterator[None]:
    """Within, an engine that plays nothing gives its memory back; it wakes whatever happens."""
    if course.ahead:
        yield
        return
    engine, phase = course.world.engine, course.clock.phase
    with phase("sync"):
        await engine.sleep()
    try:
        yield
    finally:
        course.loaded = -1
        with phase("sync"):
            await engine.wake()


async def hand_over(course: Course) -> None:
    """Bring the newest weights into the engine; who has them waits for no update."""
    if course.loaded == course.world.standing.version:
        return
    async with course.held:
        version = course.world.standing.version
        if course.loaded != version:
            with course.clock.phase("sync"):
                await course.world.engine.load(course.world.weights, version)
            course.loaded = version


async def at_once(work: Callable[[], T]) -> T:
    """Do it here and now: the second Ctrl-C breaks it off."""
    return work()


async def apart(work: Callable[[], T]) -> T:
    """Do it on a thread, and leave no one alone with it: a cancellation waits for its end."""
    return await unbroken(asyncio.get_running_loop().run_in_executor(None, work))
