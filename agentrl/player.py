"""Seats → episodes, for a measurement: each reported as it ends, some of them known before.

In    seats in a fixed order, a Player, which of the seats were played before
Out   every other episode, as soon as it is final; one that infrastructure broke is tried twice
Not   groups of trajectories in memory: what is reported may be let go

Where an engine answers in waves, what is batched together decides the last bits of log-probs. So
cohorts are the same whatever was played before, and one of which a part is missing is played
whole: its known episodes come out as they did, and are not reported again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from agentrl.env import ToolEnv
from agentrl.episode import Play, Seat, play
from agentrl.errors import AgentRLError
from agentrl.refill import made
from agentrl.task import Task
from agentrl.together import all_or_first_error
from agentrl.trajectory import Stop, Trajectory

Played = tuple[Trajectory, Mapping[str, Any]]
"""An episode, and what its line has beside it."""
Session = tuple[int, int]


def _nothing(_: Session) -> None:
    pass


def _alone(_: Sequence[Session]) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Player:
    """Who plays, and how many episodes at once."""

    play: Callable[[ToolEnv, Seat], Awaitable[Played]]
    most: int
    """Episodes at once."""
    wave: bool = False
    """Whether it answers when all live episodes have asked."""
    together: Callable[[Sequence[Session]], AbstractContextManager[None]] = _alone
    give_up: Callable[[Session], None] = _nothing
    seconds: float = 600.0
    """That the making of an environment may take."""


def through(world: Play) -> Player:
    """The player that an engine is."""

    async def one(env: ToolEnv, seat: Seat) -> Played:
        return await play(env, seat, world), {}

    engine, seconds = world.engine, world.limits.timeout
    return Player(one, engine.max_live, engine.wave, engine.episodes, engine.finish, seconds)


async def play_seats(
    make_env: Callable[[Task], ToolEnv],
    seats: Sequence[Seat],
    player: Player,
    known: Collection[Session],
    report: Callable[[Trajectory, Mapping[str, Any]], None],
) -> None:
    """Play the seats that are not known, and report each once."""
    size = max(1, player.most) if player.wave else max(1, len(seats))
    for start in range(0, len(seats), size):
        cohort = seats[start : start + size]
        if all(seat.session in known for seat in cohort):
            continue
        if not player.wave:
            cohort = [seat for seat in cohort if seat.session not in known]
        await _play_cohort(make_env, cohort, player, known, report)


async def _play_cohort(
    make_env: Callable[[Task], ToolEnv],
    cohort: Sequence[Seat],
    player: Player,
    known: Collection[Session],
    report: Callable[[Trajectory, Mapping[str, Any]], None],
) -> None:
    broken: list[Seat] = []

    def first(seat: Seat, played: Played) -> None:
        if played[0].stop is Stop.ENV_ERROR:
            broken.append(seat)
        elif seat.session not in known:
            report(*played)

    def last(seat: Seat, played: Played) -> None:
        if seat.session not in known:
            report(*played)

    await _play_all(make_env, cohort, player, first)
    again = sorted(broken, key=lambda seat: seat.session)
    if again:
        await _play_all(make_env, again, player, last)


async def _play_all(
    make_env: Callable[[Task], ToolEnv],
    seats: Sequence[Seat],
    player: Player,
    done: Callable[[Seat, Played], None],
) -> None:
    gate = asyncio.Semaphore(max(1, player.most))

    async def one(seat: Seat) -> None:
        async with gate:
            played = await _play_one(make_env, seat, player)
        done(seat, played)

    with player.together([seat.session for seat in seats]):
        await all_or_first_error([one(seat) for seat in seats])


async def _play_one(make_env: Callable[[Task], ToolEnv], seat: Seat, player: Player) -> Played:
    try:
        env = await made(make_env, seat.task, player.seconds)
    except AgentRLError as error:
        player.give_up(seat.session)
        stop, problem = Stop.ENV_ERROR, str(error)
        return Trajectory(seat.task, seat.member, seat.seed, (), (), stop, problem=problem), {}
    return await player.play(env, seat)
