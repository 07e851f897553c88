"""Tasks → Groups: n episodes of each task, played side by side.

In    tasks, n, a maker of environments for them, what episodes share (Play)
Out   Group per task, members in order, whatever order they ended in
Not   selection: a group holds all of its trajectories, broken ones included
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from agentrl.curriculum import Outcome, level_of
from agentrl.env import ToolEnv
from agentrl.episode import Play, Seat, play, seed_from
from agentrl.errors import AgentRLError, EnvironmentFault, blame
from agentrl.task import Task
from agentrl.trajectory import Stop, Trajectory

T = TypeVar("T")
RECANCEL = 0.2
"""Seconds until an episode that was told to end is told again."""

OnDone = Callable[[Trajectory], None]


@dataclass(frozen=True, slots=True)
class Group:
    """The n trajectories of one task."""

    task: Task
    trajectories: tuple[Trajectory, ...]

    @property
    def rewards(self) -> list[float | None]:
        """Reward of each member; None where it cannot be scored."""
        return [t.reward for t in self.trajectories]

    @property
    def tokens(self) -> list[int]:
        """Tokens forwarded to train on each member."""
        return [t.num_tokens for t in self.trajectories]

    @property
    def valid(self) -> list[bool]:
        """Which members may be compared."""
        return [t.valid for t in self.trajectories]


def outcome_of(group: Group) -> Outcome:
    """How many of a group's episodes were correct."""
    scored = [t for t in group.trajectories if t.valid]
    return Outcome(level_of(group.task), sum(bool(t.correct) for t in scored), len(scored))


def seed_for(run_seed: int, step: int, task_hash: str, member: int) -> int:
    """The same episode draws the same numbers, whatever ran before it."""
    return seed_from(run_seed, step, int(task_hash[:16], 16), member)


async def play_groups(
    make_env: Callable[[Task], ToolEnv],
    tasks: Sequence[Task],
    *,
    n: int,
    seed_of: Callable[[Task, int], int],
    world: Play,
    on_done: OnDone | None = None,
) -> list[Group]:
    """Play n episodes of every task; those that infrastructure broke are played once more."""
    seats = [
        Seat(task, position, member, seed_of(task, member))
        for position, task in enumerate(tasks)
        for member in range(n)
    ]
    played = await _play_all(make_env, seats, world, on_done)
    broken = [i for i, t in enumerate(played) if t.stop is Stop.ENV_ERROR]
    again = await _play_all(make_env, [seats[i] for i in broken], world, None)
    for i, trajectory in zip(broken, again, strict=True):
        played[i] = trajectory
    return [Group(task, tuple(played[p * n : (p + 1) * n])) for p, task in enumerate(tasks)]


async def _play_all(
    make_env: Callable[[Task], ToolEnv],
    seats: Sequence[Seat],
    world: Play,
    on_done: OnDone | None,
) -> list[Trajectory]:
    """Cohorts of a fixed order: which episodes share a batch never depends on time."""
    out: list[Trajectory] = []
    size = world.engine.max_live if world.engine.wave else len(seats)
    for start in range(0, len(seats), max(1, size)):
        out += await _play_cohort(make_env, seats[start : start + size], world, on_done)
    return out


async def _play_cohort(
    make_env: Callable[[Task], ToolEnv],
    seats: Sequence[Seat],
    world: Play,
    on_done: OnDone | None,
) -> list[Trajectory]:
    gate = asyncio.Semaphore(world.engine.max_live)

    async def one(seat: Seat) -> Trajectory:
        async with gate:
            trajectory = await _play_one(make_env, seat, world)
        if on_done is not None:
            on_done(trajectory)
        return trajectory

    with world.engine.episodes([seat.session for seat in seats]):
        return await _all_or_first_error([one(seat) for seat in seats])


async def _play_one(make_env: Callable[[Task], ToolEnv], seat: Seat, world: Play) -> Trajectory:
    try:
        with blame(EnvironmentFault, "making the environment"):
            env = make_env(seat.task)
    except AgentRLError as error:
        world.engine.finish(seat.session)
        stop, problem = Stop.ENV_ERROR, str(error)
        return Trajectory(seat.task, seat.member, seat.seed, (), (), stop, problem=problem)
    return await play(env, seat, world)


async def _all_or_first_error(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all; at the first error the others are cancelled and it alone is raised."""
    tasks = [asyncio.create_task(w) for w in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        # Again and again: Python 3.11's wait_for loses a cancellation that comes with its result.
        while left := [task for task in tasks if not task.done()]:
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=RECANCEL)
        await asyncio.gather(*tasks, return_exceptions=True)
