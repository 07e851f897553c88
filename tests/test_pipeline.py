"""Steps are played in order, as far as is allowed, and what breaks is told once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.errors import EngineError
from agentrl.pipeline import Pipeline


class Stage:
    """Plays a step when it is told to, and remembers what went on."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.cancelled: list[int] = []
        self.time = 0.0
        self._curtains: dict[int, asyncio.Event] = {}

    def curtain(self, step: int) -> asyncio.Event:
        return self._curtains.setdefault(step, asyncio.Event())

    async def play(self, step: int) -> int:
        self.begun.append(step)
        try:
            await self.curtain(step).wait()
        except asyncio.CancelledError:
            self.cancelled.append(step)
            raise
        self.ended.append(step)
        return step * 10

    def pipeline(self, first: int = 1) -> Pipeline[int]:
        return Pipeline(self.play, first=first, now=lambda: self.time)


def run(story: Callable[[Stage], Awaitable[None]]) -> Stage:
    stage = Stage()
    asyncio.run(asyncio.wait_for(story(stage), 20))  # type: ignore[arg-type]
    return stage


async def settle() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


def test_nothing_is_played_before_it_is_allowed() -> None:
    async def story(stage: Stage) -> None:
        pipeline = stage.pipeline()
        await settle()
        assert (stage.begun, pipeline.idle, pipeline.ahead) == ([], True, 0)
        pipeline.allow(2)
        for step in (1, 2, 3):
            stage.curtain(step).set()
        await settle()
        assert (stage.ended, pipeline.idle, pipeline.ahead) == ([1, 2], True, 2)
        await pipeline.close()

    run(story)


def test_who_takes_a_step_has_it_played_and_no_other() -> None:
    async def story(stage: Stage) -> None:
        pipeline = stage.pipeline(first=5)
        for step in (5, 6, 7):
            stage.curtain(step).set()
        assert [await pipeline.take(), await pipeline.take()] == [50, 60]
        await settle()
        assert stage.begun == [5, 6]

    run(story)


def test_one_step_is_played_at_a_time() -> None:
    async def story(stage: Stage) -> None:
        pipeline = stage.pipeline()
        pipeline.allow(3)
        await settle()
        assert stage.begun == [1]
        stage.curtain(1).set()
        await settle()
        assert (stage.begun, pipeline.ahead) == ([1, 2], 2)
        await pipeline.close()

    run(story)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(1, 5))
def test_every_step_comes_once_and_in_order_however_far_play_may_go(
    leads: list[int], first: int
) -> None:
    async def story(stage: Stage) -> None:
        pipeline = stage.pipeline(first)
        for step in range(first, first + len(leads) + 5):
            stage.curtain(step).set()
        taken = []
        for step, lead in enumerate(leads, first):
            taken.append(await pipeline.take())
            pipeline.allow(step + lead)
            await settle()
            assert stage.begun[-1] <= max(
                s + n for s, n in enumerate(leads[: step - first + 1], first)
            )
        assert taken == [10 * step for step in range(first, first + len(leads))]

    run(story)


def test_rest_ends_what_is_going_on_and_begins_nothing() -> None:
    async def story(stage: Stage) -> None:
        pipeline = stage.pipeline()
        pipeline.allow(3)
        await settle()
        resting = asyncio.ensure_future(pipeline.rest())
        await settle()
        assert not resting.done()
        for step in (1, 2, 3):
            stage.curtain(step).set()
        await resting
        await settle()
        assert (stage.ended, pipeline.idle) == ([1], True)
        assert await pipeline.take() == 10
        pipeline.allow(3)
        assert [await pipeline.take(), await pipeline.take()] == [20, 30]

    run(story)


def test_what_breaks_ahead_is_raised_before_what_was_played_is_given_out() -> None:
    async def story(stage: Stage) -> None:
        async def play(step: int) -> int:
            if step == 2:
                raise EngineError("engine: it is gone.")
            return step

        pipeline = Pipeline(play, first=1)
        pipeline.allow(2)
        await settle()
        for call in (pipeline.take, pipeline.rest):
            with pytest.raises(EngineError, match="it is gone"):
                await call()
        with pytest.raises(EngineError, match="it is gone"):
            pipeline.allow(3)
        await pipeline.close()

    run(story)


def test_who_waits_is_told_what_broke() -> None:
    async def story(stage: Stage) -> None:
        async def play(step: int) -> int:
            await stage.curtain(step).wait()
            raise EngineError("engine: it is gone.")

        pipeline = Pipeline(play, first=1)
        taking = asyncio.ensure_future(pipeline.take())
        await settle()
        stage.curtain(1).set()
        with pytest.raises(EngineError, match="it is gone"):
            await taking

    run(story)


def test_closing_waits_until_play_has_let_go_of_what_it_held() -> None:
    async def story(stage: Stage) -> None:
        async def play(step: int) -> int:
            try:
                return await stage.play(step)
            finally:
                await asyncio.sleep(0.05)
                stage.ended.append(-step)

        pipeline = Pipeline(play, first=1)
        pipeline.allow(4)
        await settle()
        await pipeline.close()
        assert (pipeline.idle, stage.begun, stage.ended) == (True, [1], [-1])
        await pipeline.close()

    assert run(story).cancelled == [1]


def test_where_a_cancellation_is_lost_closing_waits_for_the_step_and_begins_no_other() -> None:
    async def story(stage: Stage) -> None:
        async def play(step: int) -> int:
            with suppress(asyncio.CancelledError):
                await stage.curtain(step).wait()
            return await stage.play(step)

        stage.curtain(1)
        pipeline = Pipeline(play, first=1)
        pipeline.allow(4)
        await settle()
        closing = asyncio.ensure_future(pipeline.close())
        await settle()
        assert not closing.done()
        stage.curtain(1).set()
        await closing
        assert stage.ended == [1]
        assert stage.begun == [1]

    run(story)


def test_seconds_of_play_are_counted_while_it_goes_on() -> None:
    async def story(stage: Stage) -> None:
        pipeline = stage.pipeline()
        stage.time = 100.0
        pipeline.allow(1)
        await settle()
        stage.time = 103.0
        assert pipeline.busy == 3.0
        stage.curtain(1).set()
        await settle()
        stage.time = 200.0
        assert pipeline.busy == 3.0

    run(story)
