"""A scripted engine answers as any engine does, and remembers what it was asked."""

from __future__ import annotations

import asyncio

import pytest

from agentrl.engines.scripted import ScriptedEngine
from agentrl.errors import EngineError
from agentrl.policy import Completion, Engine, Request, Sampling

STOP = 7


class Letters:
    """One id per letter, from 100 on."""

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        return [100 + ord(c) - ord("a") for c in text]


def request(session=(0, 0), turn=0, max_tokens=10) -> Request:
    return Request((1, 2), max_tokens, (STOP, 8), Sampling(), 0, session, turn)


def say(engine: Engine, asked: Request) -> Completion:
    return asyncio.run(engine.generate(asked))


def test_text_of_a_mapping_is_encoded_and_ends_with_the_first_stop_token() -> None:
    engine = ScriptedEngine(Letters(), {((0, 0), 0): "ab", ((0, 0), 1): "c"})
    assert say(engine, request()) == Completion((100, 101, STOP), (-1.0,) * 3, "stop", 0)
    assert say(engine, request(turn=1)).ids == (102, STOP)


def test_a_function_may_give_ids_which_are_said_as_they_are() -> None:
    engine = ScriptedEngine(Letters(), lambda session, turn: [session[1], turn, 8])
    assert say(engine, request((0, 3), 2)) == Completion((3, 2, 8), (-1.0,) * 3, "stop", 0)
    without_end = ScriptedEngine(Letters(), lambda session, turn: [5])
    assert say(without_end, request()).finish_reason == "length"


def test_words_that_are_too_long_are_cut_and_say_so() -> None:
    engine = ScriptedEngine(Letters(), lambda session, turn: "abcdef")
    assert say(engine, request(max_tokens=3)) == Completion(
        (100, 101, 102), (-1.0,) * 3, "length", 0
    )


def test_it_can_cut_every_turn_and_give_no_logprobs() -> None:
    engine = ScriptedEngine(
        Letters(), lambda session, turn: "ab", logprob=None, finish_reason="length"
    )
    assert say(engine, request()) == Completion((100, 101), None, "length", 0)


def test_requests_and_ends_are_recorded_in_order_and_versions_taken() -> None:
    engine = ScriptedEngine(Letters(), lambda session, turn: "a")
    asked = [request((1, 0)), request((0, 2), 1)]
    with engine.episodes([(1, 0), (0, 2)]):
        for one in asked:
            say(engine, one)
        engine.finish((0, 2))
    asyncio.run(engine.load(source=None, version=4))
    assert engine.requests == asked
    assert engine.finished == [(0, 2)]
    assert say(engine, asked[0]).version == 4


@pytest.mark.parametrize("script", [{}, {((0, 0), 0): ""}, lambda session, turn: []])
def test_a_script_without_words_for_a_turn_is_an_error_that_names_it(script) -> None:
    with pytest.raises(EngineError, match=r"episode \(0, 0\), turn 0"):
        say(ScriptedEngine(Letters(), script), request())


def test_a_completion_says_which_tokens_came_from_which_weights():
    done = Completion((7, 8, 9), (-1.0,) * 3, "length", 4, ((1, 5),))
    assert list(done.pieces()) == [(4, 0, 1), (5, 1, 3)]
