"""A wave begins when every live episode has asked, and no waiter is ever left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.engines.wave import Waves
from agentrl.errors import EngineError, WeightSyncError
from agentrl.policy import Completion, Request, Sampling

Session = tuple[int, int]


def request(session: Session, turn: int = 0) -> Request:
    return Request((1,), 1, (), Sampling(), 0, session, turn)


class Batches:
    """Answers each request with its session's numbers, and keeps what it was given."""

    def __init__(self) -> None:
        self.seen: list[list[tuple[int, Session]]] = []

    async def __call__(self, requests: Sequence[Request]) -> list[Completion]:
        self.seen.append([(r.turn, r.session) for r in requests])
        await asyncio.sleep(0)
        return [Completion(r.session, None, "length", r.turn) for r in requests]


@given(
    turns=st.dictionaries(
        st.tuples(st.integers(0, 3), st.integers(0, 3)), st.integers(0, 4), min_size=1
    ),
    chance=st.randoms(use_true_random=False),
)
def test_batches_are_the_same_and_in_order_however_the_episodes_interleave(turns, chance) -> None:
    batches = Batches()
    waves = Waves(batches)

    async def one(session: Session) -> None:
        for turn in range(turns[session]):
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            completion = await waves.ask(request(session, turn))
            assert (completion.ids, completion.version) == (session, turn)
        waves.finish(session)

    async def everyone() -> None:
        sessions = list(turns)
        chance.shuffle(sessions)
        with waves.episodes(sessions):
            await asyncio.gather(*(one(s) for s in sessions))

    asyncio.run(everyone())
    expected = [
        sorted((turn, session) for session, last in turns.items() if last > turn)
        for turn in range(max(turns.values()))
    ]
    assert batches.seen == expected


def test_each_waiter_gets_its_own_copy_of_the_error_with_its_kind() -> None:
    async def fail(requests: Sequence[Request]) -> list[Completion]:
        raise WeightSyncError("stale")

    async def ask() -> list[BaseException | Completion]:
        waves = Waves(fail)
        with waves.episodes([(0, 0), (0, 1)]):
            return await asyncio.gather(
                waves.ask(request((0, 0))), waves.ask(request((0, 1))), return_exceptions=True
            )

    first, second = asyncio.run(ask())
    assert first is not second
    assert all(type(e) is WeightSyncError and str(e) == "stale" for e in (first, second))


def test_an_error_of_any_kind_reaches_the_waiters_as_the_engines() -> None:
    async def fail(requests: Sequence[Request]) -> list[Completion]:
        raise ZeroDivisionError("of a driver")

    async def ask() -> None:
        waves = Waves(fail)
        with waves.episodes([(0, 0)]):
            await waves.ask(request((0, 0)))

    with pytest.raises(EngineError, match="of a driver"):
        asyncio.run(ask())


def test_an_episode_that_gave_up_waiting_holds_no_one_up() -> None:
    async def ask() -> Completion:
        waves = Waves(Batches())
        with waves.episodes([(0, 0), (0, 1), (0, 2)]):
            impatient = asyncio.ensure_future(waves.ask(request((0, 0))))
            patient = asyncio.ensure_future(waves.ask(request((0, 1))))
            await asyncio.sleep(0)
            impatient.cancel()
            await asyncio.sleep(0)
            waves.finish((0, 0))
            await asyncio.sleep(0)
            assert not patient.done()
            waves.finish((0, 2))
            return await patient

    assert asyncio.run(ask()).ids == (0, 1)


def test_whoever_waits_when_the_cohort_ends_is_told() -> None:
    async def ask() -> None:
        waves = Waves(Batches())
        with waves.episodes([(0, 0), (0, 1)]):
            waiting = asyncio.ensure_future(waves.ask(request((0, 0))))
            await asyncio.sleep(0)
        with pytest.raises(EngineError, match="cohort ended"):
            await waiting
        with waves.episodes([(0, 0)]):
            await waves.ask(request((0, 0)))

    asyncio.run(ask())


def test_misuse_is_named() -> None:
    async def ask() -> None:
        waves = Waves(Batches())
        with pytest.raises(EngineError, match="not declared"):
            await waves.ask(request((0, 0)))
        with waves.episodes([(0, 0), (0, 1)]):
            with (
                pytest.raises(EngineError, match="still being played"),
                waves.episodes([(1, 0)]),
            ):
                pass
            waiting = asyncio.ensure_future(waves.ask(request((0, 0))))
            await asyncio.sleep(0)
            with pytest.raises(EngineError, match="twice"):
                await waves.ask(request((0, 0)))
            waves.finish((0, 1))
            waves.finish((0, 1))
            await waiting
            waves.finish((0, 0))
            with pytest.raises(EngineError, match="not declared"):
                await waves.ask(request((0, 0)))

    asyncio.run(ask())


def test_a_cancelled_run_leaves_no_one_waiting() -> None:
    async def ask() -> None:
        waves = Waves(Batches())
        with waves.episodes([(0, 0)]):
            waiting = asyncio.ensure_future(waves.ask(request((0, 0))))
            await asyncio.sleep(0)
            others = asyncio.all_tasks() - {asyncio.current_task(), waiting}
            for task in others:
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(ask())
