"""Refill: an episode that infrastructure broke is played again, on a fresh environment.

In    a seat, a maker of environments, how often is often enough (Play.max_refills)
Out   Ended: the last try, and what broke those before it
Not   another try for what the policy did: only Stop.ENV_ERROR is infrastructure's
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentrl.author import TooSlow, run_author
from agentrl.env import ToolEnv
from agentrl.episode import Play, Seat, play
from agentrl.errors import AgentRLError, EnvironmentFault, blame
from agentrl.notice import GivenUp, Notice
from agentrl.task import Task
from agentrl.trajectory import Stop, Trajectory

MakeEnv = Callable[[Task], ToolEnv]


@dataclass(frozen=True, slots=True)
class Ended:
    """How an episode ended, after all its tries."""

    trajectory: Trajectory
    broken: tuple[str, ...] = ()
    """What broke the tries before, one line each."""
    in_time: bool = True
    """False: its group was complete without it."""

    @property
    def counts(self) -> bool:
        """Whether it is one of those that its group was waiting for."""
        return self.in_time and self.trajectory.valid


async def play_seat(
    make_env: MakeEnv, seat: Seat, world: Play, notice: Notice | None = None
) -> Ended:
    """Play an episode until it isn't broken, as often as is allowed.

    Every try draws the same numbers: its seed is that of the seat.
    """
    notice, broken = notice or Notice(), list[str]()
    while True:
        trajectory = await play_once(make_env, seat, world, notice)
        fine = trajectory.stop is not Stop.ENV_ERROR
        if fine or notice.given or len(broken) >= world.max_refills:
            return Ended(trajectory, tuple(broken))
        broken.append(trajectory.problem)


async def play_once(
    make_env: MakeEnv, seat: Seat, world: Play, notice: Notice | None = None
) -> Trajectory:
    """Play an episode once, on an environment of its own."""
    notice = notice or Notice()
    try:
        async with notice.heeded(), world.gates.resets.at(seat.position):
            env = await made(make_env, seat.task, world.limits.timeout)
    except (AgentRLError, GivenUp) as error:
        world.engine.finish(seat.session)
        stop, problem = Stop.ENV_ERROR, str(error)
        return Trajectory(seat.task, seat.member, seat.seed, (), (), stop, problem=problem)
    return await play(env, seat, world, notice)


async def made(make_env: MakeEnv, task: Task, seconds: float) -> ToolEnv:
    """In a thread: a constructor may load data, or wait for a server.

    Raises:
        EnvironmentFault: it failed, or took longer.
    """
    try:
        with blame(EnvironmentFault, "making the environment"):
            env: ToolEnv = await run_author(make_env, task, seconds=seconds)
    except TooSlow:
        raise EnvironmentFault(f"making the environment took over {seconds} s") from None
    return env
