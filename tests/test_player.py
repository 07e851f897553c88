"""Seats are played in cohorts that never depend on what is known, and each is reported once."""

from __future__ import annotations

import asyncio
import time

import pytest

from agentrl import Task, ToolEnv
from agentrl.episode import Seat
from agentrl.errors import EngineError
from agentrl.player import Player, play_seats
from agentrl.trajectory import Stop, Trajectory

SEATS = [Seat(Task(f"t{i}"), i, 0, i) for i in range(7)]


class Quiet(ToolEnv):
    """Says nothing."""


def outcome(seat, stop=Stop.ANSWER):
    return Trajectory(seat.task, seat.member, seat.seed, (), (), stop, reward=1.0)


def played(known=(), wave=True, most=3, broken=lambda seat, times: False, make=Quiet):
    """Seats in the order they were played, and in the order they were reported."""
    asked, reported, times = [], [], {}

    async def play(env, seat):
        asked.append(seat.position)
        times[seat.position] = times.get(seat.position, 0) + 1
        await asyncio.sleep(0)
        stop = Stop.ENV_ERROR if broken(seat, times[seat.position]) else Stop.ANSWER
        return outcome(seat, stop), {"tries": times[seat.position]}

    def report(trajectory, facts):
        reported.append((trajectory.seed, trajectory.stop, facts.get("tries")))

    player = Player(play, most, wave)
    asyncio.run(play_seats(lambda task: make(), SEATS, player, set(known), report))
    return asked, reported


def test_a_wave_of_which_a_part_is_missing_is_played_whole_and_reported_once():
    asked, reported = played(known=[(0, 0), (1, 0), (2, 0), (4, 0)])
    assert (sorted(asked[:3]), asked[3:]) == ([3, 4, 5], [6])
    assert sorted(seed for seed, *_ in reported) == [3, 5, 6]


def test_without_waves_only_what_is_missing_is_played():
    asked, reported = played(known=[(0, 0), (4, 0)], wave=False)
    assert sorted(asked) == [1, 2, 3, 5, 6]
    assert len(reported) == 5


def test_what_broke_is_played_once_more_and_then_reported_as_it_is():
    asked, reported = played(
        broken=lambda seat, times: seat.position == 1 or (times == 1 and seat.position == 2)
    )
    tries = [sorted(part) for part in (asked[:3], asked[3:5], asked[5:8], asked[8:])]
    assert tries == [[0, 1, 2], [1, 2], [3, 4, 5], [6]]
    assert sorted(reported)[1:3] == [(1, Stop.ENV_ERROR, 2), (2, Stop.ANSWER, 2)]


def test_an_environment_that_cannot_be_made_breaks_its_episodes_alone():
    def refuse():
        raise ValueError("no")

    asked, reported = played(make=refuse)
    assert asked == []
    assert {stop for _, stop, _ in reported} == {Stop.ENV_ERROR}


def test_an_environment_that_is_never_made_is_given_up():
    problems = []

    async def play(env, seat):
        raise AssertionError("it was made")

    player = Player(play, 10, seconds=0.05)
    asyncio.run(
        play_seats(
            lambda task: time.sleep(0.5),
            SEATS[:2],
            player,
            set(),
            lambda trajectory, _: problems.append(trajectory.problem),
        )
    )
    assert problems == ["making the environment took over 0.05 s"] * 2


def test_the_first_error_of_an_engine_ends_all():
    begun, ended = [], []

    async def play(env, seat):
        begun.append(seat.position)
        while seat.position == 1:
            await asyncio.sleep(0.01)
            if len(begun) == len(SEATS):
                raise EngineError("gone")
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(seat.position)

    player = Player(play, 10)
    with pytest.raises(EngineError, match="gone"):
        asyncio.run(play_seats(lambda task: Quiet(), SEATS, player, set(), lambda *_: None))
    assert sorted(ended) == [0, 2, 3, 4, 5, 6]
