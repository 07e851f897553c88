"""Tasks → Groups: n episodes of each task, played side by side.

In    tasks, n, a maker of environments for them, what episodes share (Play)
Out   Group per task, members in order, whatever order they ended in
Not   selection: a group holds all of its trajectories, broken ones included

Where the engine plays in waves, episodes play in cohorts of a fixed order, and those that
infrastructure broke are played again after all others: what is computed together never depends on
time. Else every episode goes its own way: it begins when there is room, asks for a turn when its
tools have returned, and is scored, let go or played again while others go on. Tasks take turns:
no task begins its next member while another one that has so many left waits with its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from agentrl.curriculum import Outcome, level_of
from agentrl.effort import Effort
from agentrl.episode import Play, Seat, seed_from
from agentrl.race import Race
from agentrl.refill import Ended, MakeEnv, play_once, play_seat
from agentrl.schedule import refuse_in_waves
from agentrl.task import Task
from agentrl.together import all_or_first_error
from agentrl.trajectory import Stop, Trajectory

OnDone = Callable[[Trajectory], None]


@dataclass(frozen=True, slots=True)
class Group:
    """The n trajectories of one task."""

    task: Task
    trajectories: tuple[Trajectory, ...]
    effort: Effort = field(default_factory=Effort)
    """What was played beside them."""

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
    make_env: MakeEnv,
    tasks: Sequence[Task],
    *,
    n: int,
    seed_of: Callable[[Task, int], int],
    world: Play,
    on_done: OnDone | None = None,
    first: int = 0,
    spare: int = 0,
) -> list[Group]:
    """Play n episodes of every task; those that infrastructure broke are played again.

    Args:
        make_env: A fresh environment for a task.
        tasks: One group each.
        n: Members of a group.
        seed_of: Seed of a task's member.
        world: What episodes share.
        on_done: Told of each episode that ended, for at most as many as the groups hold.
        first: Only the members from there on: the ones before were played already.
        spare: Episodes of each task beyond n. A group is complete with the first valid ones; the
            others are given up. Its members are then not numbered without gaps.

    Raises:
        UsageError: there are spare episodes, and the engine plays in waves.
        EngineError: the engine failed.
    """
    if world.engine.wave:
        refuse_in_waves(oversample=spare, requests=0)
    seats = [
        Seat(task, position, member, seed_of(task, member))
        for position, task in enumerate(tasks)
        for member in range(first, n + spare)
    ]
    if world.engine.wave:
        played: Sequence[Ended | None] = await _in_waves(make_env, seats, world, on_done)
    else:
        played = await _in_stream(make_env, seats, world, n - first, on_done)
    size = n + spare - first
    rows = [played[p * size : (p + 1) * size] for p in range(len(tasks))]
    return [_group(task, row, n - first) for task, row in zip(tasks, rows, strict=True)]


def _group(task: Task, played: Sequence[Ended | None], wanted: int) -> Group:
    """Those that count, filled up with others where they are too few; members in order."""
    begun = [ended for ended in played if ended is not None]
    places = sorted(range(len(begun)), key=lambda i: not begun[i].counts)[:wanted]
    kept = set(places)
    effort = Effort(
        refilled=tuple(problem for ended in begun for problem in ended.broken),
        given_up=tuple(
            ended.trajectory.num_trained_tokens
            for place, ended in enumerate(begun)
            if place not in kept
        ),
    )
    return Group(task, tuple(begun[place].trajectory for place in sorted(places)), effort)


async def _in_stream(
    make_env: MakeEnv,
    seats: Sequence[Seat],
    world: Play,
    wanted: int,
    on_done: OnDone | None,
) -> list[Ended | None]:
    """None for a seat whose group was complete before there was room for it."""
    room = asyncio.Semaphore(world.engine.max_live)
    races = {seat.position: Race(wanted) for seat in seats}

    async def one(seat: Seat) -> Ended | None:
        race = races[seat.position]
        notice = race.enter()
        async with room:
            if notice.given:
                return None
            ended = await play_seat(make_env, seat, world, notice)
        in_time = race.arrive(ended.trajectory)
        if in_time and on_done is not None and race.arrived <= race.wanted:
            on_done(ended.trajectory)
        return replace(ended, in_time=in_time)

    taking_turns = sorted(seats, key=lambda seat: (seat.member, seat.position))
    with world.engine.episodes([seat.session for seat in taking_turns]):
        played = await all_or_first_error([one(seat) for seat in taking_turns])
    by_seat = {seat.session: ended for seat, ended in zip(taking_turns, played, strict=True)}
    return [by_seat[seat.session] for seat in seats]


async def _in_waves(
    make_env: MakeEnv, seats: Sequence[Seat], world: Play, on_done: OnDone | None
) -> list[Ended]:
    """All of them, then again those that are broken, as often as is allowed."""
    played = [Ended(t) for t in await _in_cohorts(make_env, seats, world, on_done)]
    for _ in range(world.max_refills):
        broken = [i for i, e in enumerate(played) if e.trajectory.stop is Stop.ENV_ERROR]
        again = await _in_cohorts(make_env, [seats[i] for i in broken], world, None)
        for i, trajectory in zip(broken, again, strict=True):
            problems = (*played[i].broken, played[i].trajectory.problem)
            played[i] = Ended(trajectory, problems)
    return played


async def _in_cohorts(
    make_env: MakeEnv, seats: Sequence[Seat], world: Play, on_done: OnDone | None
) -> list[Trajectory]:
    """Cohorts of a fixed order: which episodes share a batch never depends on time."""

    async def one(seat: Seat) -> Trajectory:
        trajectory = await play_once(make_env, seat, world)
        if on_done is not None:
            on_done(trajectory)
        return trajectory

    out: list[Trajectory] = []
    size = world.engine.max_live
    for start in range(0, len(seats), size):
        cohort = seats[start : start + size]
        with world.engine.episodes([seat.session for seat in cohort]):
            out += await all_or_first_error([one(seat) for seat in cohort])
    return out
