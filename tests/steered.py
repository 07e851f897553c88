"""An engine that answers when it is told to, and environments that note what is done to them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agentrl.engines.scripted import ScriptedEngine
from agentrl.env import ToolEnv
from agentrl.episode import Limits, Play
from agentrl.gate import Gates
from agentrl.group import Group, play_groups
from agentrl.policy import Completion, Request, Sampling
from agentrl.render import renderer_for
from agentrl.task import Task
from agentrl.tooling import tool
from tests.doubles import ReadableTokenizer

Session = tuple[int, int]
HARD_LIMIT = 30.0
"""Seconds after which a test has hung."""


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


class SteeredEngine(ScriptedEngine):
    """Plays a script, each turn when `answer` is called for its episode."""

    def __init__(self, script: Any, **options: Any) -> None:
        super().__init__(ReadableTokenizer(), script, **options)
        self.asked: dict[Session, asyncio.Future[None]] = {}
        self.aborted: list[Session] = []
        self.most_asked = 0

    async def generate(self, request: Request) -> Completion:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.asked[request.session] = waiter
        self.most_asked = max(self.most_asked, len(self.asked))
        try:
            await waiter
        except asyncio.CancelledError:
            self.aborted.append(request.session)
            raise
        finally:
            del self.asked[request.session]
        return await super().generate(request)

    def answer(self, session: Session) -> None:
        self.asked[session].set_result(None)

    def pending(self) -> list[Session]:
        return sorted(session for session, waiter in self.asked.items() if not waiter.done())


class Noted(ToolEnv):
    """It notes what happens to it, under the seed of its episode."""

    def __init__(self, log: list[tuple[str, int]]) -> None:
        self._log = log

    def note(self, what: str) -> None:
        self._log.append((what, self.np_random_seed))

    async def start(self, task: Task) -> None:
        self.note("start")

    async def reward(self, task: Task, trajectory: Any) -> float:
        self.note("reward")
        return 1.0

    async def release(self) -> None:
        self.note("release")

    @tool
    async def look(self) -> str:
        """Look around."""
        self.note("look")
        return "a lamp"


def world_of(engine: ScriptedEngine, **options: Any) -> Play:
    limits = options.pop("limits", Limits())
    gates = options.pop("gates", Gates())
    renderer = renderer_for(ReadableTokenizer())
    return Play(engine, renderer, Sampling(), limits, gates=gates, **options)


def seed_of(task: Task, member: int) -> int:
    return 100 * int(task.prompt) + member


def tasks_of(count: int) -> list[Task]:
    """Tasks that are called by their position, so that a seed tells task and member."""
    return [Task(str(position)) for position in range(count)]


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until it is so."""
    while not condition():
        await asyncio.sleep(0.0005)


def steered(
    make: Callable[[Task], ToolEnv],
    world: Play,
    driver: Callable[[SteeredEngine, asyncio.Task[list[Group]]], Awaitable[None]],
    *,
    tasks: int = 1,
    **options: Any,
) -> list[Group]:
    """Groups that were played while a driver told the engine whom to answer."""

    async def scene() -> list[Group]:
        engine = world.engine
        assert isinstance(engine, SteeredEngine)
        work = play_groups(make, tasks_of(tasks), seed_of=seed_of, world=world, **options)
        playing = asyncio.create_task(work)
        steering = asyncio.ensure_future(driver(engine, playing))
        try:
            async with asyncio.timeout(HARD_LIMIT):
                await asyncio.wait([playing, steering], return_when=asyncio.FIRST_EXCEPTION)
                await steering
                return await playing
        finally:
            playing.cancel()
            steering.cancel()

    return asyncio.run(scene())


def members(groups: Sequence[Group]) -> list[list[int]]:
    return [[t.member for t in group.trajectories] for group in groups]
