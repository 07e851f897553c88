"""So many inside at once, and every task gets its turn."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.gate import Gate


@dataclass
class Crowd:
    """People at a gate, each of whom stays inside until told to go."""

    gate: Gate
    inside: dict[int, int] = field(default_factory=dict)
    """Person to task."""
    waiting: dict[int, int] = field(default_factory=dict)
    admitted: list[int] = field(default_factory=list)
    """Tasks, in the order in which their people came in."""
    _go: dict[int, asyncio.Event] = field(default_factory=dict)
    _tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)

    async def come(self, person: int, task: int) -> None:
        self.waiting[person], self._go[person] = task, asyncio.Event()
        self._tasks[person] = asyncio.create_task(self._visit(person, task))
        await settle()

    async def go(self, person: int) -> None:
        self._go[person].set()
        await settle()

    async def give_up(self, person: int) -> None:
        self._tasks[person].cancel()
        await settle()
        self.waiting.pop(person, None)

    async def _visit(self, person: int, task: int) -> None:
        async with self.gate.at(task):
            del self.waiting[person]
            self.inside[person] = task
            self.admitted.append(task)
            await self._go[person].wait()
            del self.inside[person]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@given(
    most=st.integers(1, 4),
    arrivals=st.lists(st.integers(0, 3), min_size=1, max_size=25),
    chance=st.randoms(use_true_random=False),
)
def test_never_more_than_allowed_and_everyone_gets_in_or_gave_up(most, arrivals, chance) -> None:
    async def scene() -> None:
        crowd, left, gave_up = Crowd(Gate(most)), list(enumerate(arrivals)), 0
        while left or crowd.inside or crowd.waiting:
            ways = ["come"] * bool(left) + ["go"] * bool(crowd.inside)
            ways += ["give up"] * (bool(crowd.waiting) and chance.random() < 0.3)
            way = chance.choice(ways)
            if way == "come":
                await crowd.come(*left.pop(0))
            elif way == "go":
                await crowd.go(chance.choice(list(crowd.inside)))
            else:
                gave_up += 1
                await crowd.give_up(chance.choice(list(crowd.waiting)))
            assert len(crowd.inside) == crowd.gate.inside <= most
            # Nobody waits while there is room.
            assert not crowd.waiting or len(crowd.inside) == most
        assert len(crowd.admitted) + gave_up == len(arrivals)

    asyncio.run(scene())


@given(
    most=st.integers(1, 3),
    arrivals=st.lists(st.integers(0, 3), min_size=2, max_size=30),
    chance=st.randoms(use_true_random=False),
)
def test_no_task_is_let_in_twice_while_another_waits_with_nobody_inside(
    most, arrivals, chance
) -> None:
    async def scene() -> None:
        crowd, left = Crowd(Gate(most)), list(enumerate(arrivals))
        since: dict[int, Counter[int]] = {}
        while left or crowd.inside:
            seen = len(crowd.admitted)
            if left and (not crowd.inside or chance.random() < 0.6):
                await crowd.come(*left.pop(0))
            else:
                await crowd.go(chance.choice(list(crowd.inside)))
            starved = set(crowd.waiting.values()) - set(crowd.inside.values())
            since = {task: since.get(task, Counter()) for task in sorted(starved)}
            for counted in since.values():
                counted.update(crowd.admitted[seen:])
                assert max(counted.values(), default=0) <= 1

    asyncio.run(scene())


def test_a_crowd_of_one_task_does_not_stand_before_the_others() -> None:
    async def scene() -> list[int]:
        crowd = Crowd(Gate(1))
        for person, task in enumerate([0, 0, 0, 0, 1, 2]):
            await crowd.come(person, task)
        while crowd.inside:
            await crowd.go(next(iter(crowd.inside)))
        return crowd.admitted

    assert asyncio.run(scene()) == [0, 1, 2, 0, 0, 0]


def test_whoever_is_let_in_and_told_to_go_at_once_leaves_the_room_to_the_next() -> None:
    async def scene() -> None:
        gate = Gate(1)
        await gate.enter(0)
        second = asyncio.create_task(gate.enter(0))
        third = asyncio.create_task(gate.enter(0))
        await settle()
        gate.leave(0)
        second.cancel()
        await asyncio.wait_for(third, 5)
        with pytest.raises(asyncio.CancelledError):
            await second
        assert gate.inside == 1

    asyncio.run(scene())


def test_without_a_limit_everyone_walks_through() -> None:
    async def scene() -> None:
        gate = Gate()
        async with gate.at(0), gate.at(0), gate.at(1):
            assert gate.inside == 0

    asyncio.run(scene())
