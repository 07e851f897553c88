"""A stream: requests join and leave the running batch, and what is held stays within bounds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import nn

from agentrl.engines.decode import Decoder
from agentrl.engines.stream import Stream
from agentrl.engines.transformers import TransformersEngine
from agentrl.errors import EngineError, WeightSyncError
from agentrl.policy import Completion, Request, Sampling
from agentrl.weights import ModelWeights
from tests.models import VOCABULARY, llama

Session = tuple[int, int]
CONTEXT = 500


def start(model: nn.Module, schedule: str = "stream", **options) -> TransformersEngine:
    return TransformersEngine(model, max_context=CONTEXT, schedule=schedule, **options)


def words(seed: object, count: int) -> list[int]:
    return random.Random(repr(seed)).choices(range(10, VOCABULARY), k=count)


def request(
    session: Session, prompt: Sequence[int], max_tokens: int, *, turn: int = 0, stops=(5, 6)
) -> Request:
    seed = 1000 * session[0] + 10 * session[1] + turn
    return Request(tuple(prompt), max_tokens, stops, Sampling(), seed, session, turn)


def plain(model: nn.Module, ids: Sequence[int]) -> list[float]:
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0, :-1]
    row = torch.tensor(list(ids[1:]))
    return logits.float().log_softmax(-1).gather(1, row[:, None])[:, 0].tolist()


def assert_true(model: nn.Module, asked: Request, said: Completion) -> None:
    expected = plain(model, (*asked.prompt_ids, *said.ids))[-len(said.ids) :]
    assert said.logprobs == pytest.approx(expected, abs=1e-4)


async def play(
    engine: TransformersEngine, *, tasks: int, members: int, turns: int, common: int = 0
) -> dict[tuple[Session, int], tuple[Request, Completion]]:
    """Episodes whose tools take a random time; prompts of a task are the same."""
    said: dict[tuple[Session, int], tuple[Request, Completion]] = {}

    async def one(session: Session) -> None:
        chance = random.Random(repr(session))
        ids = words("common", common) + words(session[0], 8 + session[0])
        for turn in range(turns):
            if not engine.wave:
                await asyncio.sleep(chance.random() / 50)
            asked = request(session, ids, 12, turn=turn)
            answer = await engine.generate(asked)
            said[session, turn] = asked, answer
            ids = [*ids, *answer.ids, *words((session, turn), 1 + 9 * (session[1] % 3))]
        engine.finish(session)

    sessions = [(t, m) for t in range(tasks) for m in range(members)]
    with engine.episodes(sessions):
        await asyncio.gather(*(one(session) for session in sessions))
    return said


@pytest.mark.parametrize("common", [0, 200])
def test_the_same_seeds_say_the_same_in_a_stream_as_in_waves(common: int) -> None:
    model = llama()
    options = {"tasks": 4, "members": 5, "turns": 3, "common": common}
    streamed = asyncio.run(play(start(model), **options))
    waved = asyncio.run(play(start(model, "waves"), **options))
    assert streamed.keys() == waved.keys()
    for key, (asked, said) in streamed.items():
        assert said.ids == waved[key][1].ids
        assert said.finish_reason == waved[key][1].finish_reason
        assert_true(model, asked, said)


def test_a_short_request_that_comes_later_is_answered_earlier() -> None:
    async def ask() -> list[str]:
        engine, order = start(llama()), []

        async def one(name: str, asked: Request) -> None:
            await engine.generate(asked)
            order.append(name)

        with engine.episodes([(0, 0), (1, 0)]):
            before = engine.forwarded_tokens
            long = asyncio.create_task(one("long", request((0, 0), [11, 12], 400, stops=())))
            while engine.forwarded_tokens < before + 10:
                await asyncio.sleep(0)
            await one("short", request((1, 0), [13, 14, 15], 3, stops=()))
            await long
        return order

    assert asyncio.run(ask()) == ["short", "long"]


def test_later_turns_compute_news_only_and_an_episode_that_ended_is_forgotten() -> None:
    async def ask() -> tuple[int, int, int]:
        engine = start(llama())
        with engine.episodes([(0, 0), (0, 1)]):
            first = await engine.generate(request((0, 0), words("p", 90), 4, stops=()))
            fed = engine.forwarded_tokens
            prompt = [*words("p", 90), *first.ids, 20, 21]
            await engine.generate(request((0, 0), prompt, 2, turn=1, stops=()))
            news = engine.forwarded_tokens - fed
            engine.finish((0, 0))
            await engine.generate(request((0, 1), [11, 12, 13], 2, stops=()))
            held = list(engine._decoder.cache.runs)
        return news, len(held), engine._decoder.cache.bytes

    news, held, left = asyncio.run(ask())
    assert news == 1 + 2 + 1
    assert held == 1
    assert left == 0


def test_a_prompt_that_others_of_the_group_have_is_computed_once() -> None:
    model, prompt = llama(), words("prompt", 40)

    async def ask() -> tuple[list[int], list[tuple[Request, Completion]]]:
        engine, spent, said = start(model), list[int](), list[tuple[Request, Completion]]()
        sessions = [(0, member) for member in range(3)]
        with engine.episodes(sessions):
            for session in sessions:
                before = engine.forwarded_tokens
                asked = request(session, prompt, 1, stops=())
                said.append((asked, await engine.generate(asked)))
                spent.append(engine.forwarded_tokens - before)
        return spent, said

    spent, said = asyncio.run(ask())
    assert spent == [40, 0, 0]
    for asked, answer in said:
        assert_true(model, asked, answer)


def test_episodes_that_come_one_by_one_lie_side_by_side() -> None:
    async def ask() -> tuple[int, int]:
        engine = start(llama())
        sessions = [(task, 0) for task in range(12)]
        with engine.episodes(sessions):
            for session in sessions:
                await engine.generate(request(session, words(session, 20), 8, stops=()))
            cache = engine._decoder.cache
            return len(cache.own.slabs), len(cache.groups.slabs)

    assert asyncio.run(ask()) == (1, 1)


def test_whoever_gives_up_is_dropped_and_the_others_go_on() -> None:
    async def ask() -> tuple[Completion, int]:
        engine = start(llama())
        with engine.episodes([(0, 0), (0, 1)]):
            before = engine.forwarded_tokens
            given_up = asyncio.create_task(
                engine.generate(request((0, 0), [11, 12], 490, stops=()))
            )
            patient = asyncio.create_task(engine.generate(request((0, 1), [11, 13], 60, stops=())))
            while engine.forwarded_tokens < before + 20:
                await asyncio.sleep(0)
            given_up.cancel()
            said = await patient
            with pytest.raises(asyncio.CancelledError):
                await given_up
            return said, engine.forwarded_tokens - before

    said, fed = asyncio.run(ask())
    assert len(said.ids) == 60
    assert fed < 400


@pytest.mark.parametrize("joined", [True, False])
def test_of_one_that_is_dropped_when_its_episode_has_ended_nothing_is_told(joined: bool) -> None:
    """An episode that its group needs no more: its driver drops it after `finish`."""
    stream = Stream(Decoder(llama(), 1 << 24), "here", lambda: None)
    stream.add("stays", request((0, 0), words("stays", 9), 30, stops=()))
    if joined:
        stream.add("given up", request((0, 1), words("up", 9), 30, stops=()))
    assert stream.step() == []
    if not joined:
        stream.add("given up", request((0, 1), words("up", 9), 30, stops=()))
    stream.finish({(0, 1)})
    stream.drop("given up")
    told = [key for _ in range(40) for key, _ in stream.step()]
    assert told == ["stays"]


def test_a_failure_is_told_to_each_who_waits_and_the_next_requests_are_right() -> None:
    model = llama()
    engine = start(model)
    broken = [True]

    def fail(module: nn.Module, args: object) -> None:
        if broken[0]:
            raise RuntimeError("no memory left")

    model.model.register_forward_pre_hook(fail)

    async def ask() -> None:
        requests = [request((0, m), [11, 12], 5) for m in range(3)]
        with engine.episodes([r.session for r in requests]):
            told = await asyncio.gather(
                *(engine.generate(r) for r in requests), return_exceptions=True
            )
            assert len({id(error) for error in told}) == 3
            assert all(isinstance(e, EngineError) and "no memory left" in str(e) for e in told)
            broken[0] = False
            said = await asyncio.gather(*(engine.generate(r) for r in requests))
        for asked, answer in zip(requests, said, strict=True):
            assert_true(model, asked, answer)

    asyncio.run(ask())


def test_an_episode_that_asks_twice_at_once_is_told() -> None:
    async def ask() -> None:
        engine = start(llama())
        with engine.episodes([(0, 0)]):
            first = asyncio.create_task(engine.generate(request((0, 0), [11], 60, stops=())))
            await asyncio.sleep(0)
            with pytest.raises(EngineError, match="twice"):
                await engine.generate(request((0, 0), [11], 5))
            await first

    asyncio.run(ask())


def test_when_the_cohort_ends_whoever_waits_is_told_and_nothing_is_held() -> None:
    async def ask() -> None:
        engine = start(llama())
        with engine.episodes([(0, 0)]):
            waiting = asyncio.create_task(engine.generate(request((0, 0), [11], 480, stops=())))
            await asyncio.sleep(0.01)
        with pytest.raises(EngineError, match="cohort ended"):
            await waiting
        assert engine._decoder.cache.bytes == 0

    asyncio.run(ask())


def test_new_weights_come_between_two_tokens_and_the_completion_says_where() -> None:
    learner = llama()
    engine = start(learner, own_copy=True)
    old = llama()

    async def ask() -> tuple[Request, Completion, Request, Completion]:
        with engine.episodes([(0, 0), (0, 1)]):
            before = engine.forwarded_tokens
            asked = request((0, 0), [11, 12], 300, stops=())
            running = asyncio.create_task(engine.generate(asked))
            while engine.forwarded_tokens < before + 10:
                await asyncio.sleep(0)
            with torch.no_grad():
                for parameter in learner.parameters():
                    parameter.mul_(1.2)
            await engine.load(ModelWeights(learner), 4)
            said = await running
            later = request((0, 0), [*asked.prompt_ids, *said.ids, 20], 20, turn=1)
            return asked, said, later, await engine.generate(later)

    asked, said, later, answer = asyncio.run(ask())
    (at, version), *more = said.changes
    assert said.version == 0
    assert (version, more) == (4, [])
    assert 0 < at < 300
    before = plain(old, (*asked.prompt_ids, *said.ids))[-300:][:at]
    assert said.logprobs[:at] == pytest.approx(before, abs=1e-4)
    assert np.abs(np.subtract(said.logprobs, plain(old, (*asked.prompt_ids, *said.ids))[-300:])[
        at:
    ]).max() > 0.01  # fmt: skip
    assert (answer.version, answer.changes) == (4, ())
    assert_true(learner, later, answer)


def test_a_hand_over_that_fails_ends_those_that_run_and_one_that_succeeds_heals() -> None:
    learner, other = llama(), llama(seed=1)
    engine = start(learner, own_copy=True)

    class Torn(ModelWeights):
        def fingerprint(self, ids: Sequence[int]) -> list[float]:
            return ModelWeights(other).fingerprint(ids)

    async def ask() -> None:
        with engine.episodes([(0, 0)]):
            running = asyncio.create_task(engine.generate(request((0, 0), [11], 480, stops=())))
            await asyncio.sleep(0.01)
            with pytest.raises(WeightSyncError, match="nats off"):
                await engine.load(Torn(learner), 1)
            with pytest.raises(EngineError, match="hand-over"):
                await running
            await engine.load(ModelWeights(learner), 2)
            assert (await engine.generate(request((0, 0), [11], 3))).version == 2

    asyncio.run(ask())


def test_a_shared_module_changes_hands_only_when_nobody_is_answered() -> None:
    model = llama()
    engine = start(model)
    assert not engine.inflight

    async def ask() -> Completion:
        with engine.episodes([(0, 0)]):
            running = asyncio.create_task(engine.generate(request((0, 0), [11], 200, stops=())))
            await asyncio.sleep(0.01)
            await engine.load(ModelWeights(model), 1)
            return await running

    said = asyncio.run(ask())
    assert len(said.ids) == 200
    assert (said.version, said.changes) == (0, ())


@pytest.mark.parametrize("schedule", ["waves", "stream"])
def test_memory_stays_within_its_bound_and_everyone_is_answered(schedule: str) -> None:
    model = llama()
    row = 192 * 2 * 2 * 32 * 4
    engine = start(model, schedule, cache_gib=5 * row / 2**30)
    said = asyncio.run(play(engine, tasks=3, members=4, turns=4))
    assert len(said) == 48
    for asked, answer in said.values():
        assert_true(model, asked, answer)
    assert 0 < engine._decoder.cache.peak <= 7 * row
