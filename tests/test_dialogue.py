"""Episodes through a chat server end, are scored and counted as those of a local policy."""

from __future__ import annotations

import asyncio
import json

import pytest

from agentrl import Task, ToolEnv, tool
from agentrl.chat import Talk, reply_of
from agentrl.config import EndpointSection
from agentrl.dialogue import Line, converse
from agentrl.endpoint import Endpoint
from agentrl.episode import Limits, Seat
from agentrl.errors import EnvironmentFault
from agentrl.policy import Sampling
from agentrl.trajectory import Stop
from tests.chat_server import refused, said, serving


class Shelf(ToolEnv):
    """Add numbers on a shelf."""

    system_prompt = "Add."

    @tool
    def add(self, a: int, b: int) -> str:
        """Add.

        Args:
            a: One.
            b: Other.
        """
        return str(a + b)

    def reward(self, task, trajectory):
        """Right where the answer is."""
        return float(trajectory.answer == "5")


def play(answer, limits=None, **settings):
    """One episode, and what the server was asked."""

    async def run(url):
        endpoint = Endpoint(EndpointSection(base_url=url, retries=0, **settings), "sk-1")
        line = Line(endpoint, "m", Sampling(0.5), limits or Limits())
        try:
            return await converse(Shelf(), Seat(Task("2+3?"), 0, 0, 7), line)
        finally:
            await endpoint.close()

    with serving(answer) as asked:
        trajectory, facts = asyncio.run(run(asked.url))
    return trajectory, facts, asked


def in_turn(*answers):
    left = list(answers)
    return lambda body: left.pop(0)


def test_calls_run_and_their_results_go_back_under_their_ids():
    calls = [("add", '{"a": 2, "b": 3}'), ("add", '{"a": 1, "b": 1}')]
    first, second = said("", calls, "tool_calls"), said("5", usage=(20, 1))
    trajectory, facts, asked = play(in_turn(first, second), price_in=1.0, price_out=2.0)
    assert (trajectory.stop, trajectory.correct) == (Stop.ANSWER, True)
    assert [o.content for o in trajectory.turns[0].outcomes] == ["5", "2"]
    assert facts["tokens"] == 21
    assert facts["trained_tokens"] == 6
    assert facts["usage"]["requests"] == 2
    assert facts["usage"]["cost"] == pytest.approx((30 + 2 * 6) / 1e6)
    opening, later = asked.bodies
    assert opening["path"] == "/v1/chat/completions"
    assert [m["role"] for m in opening["messages"]] == ["system", "user"]
    assert (opening["model"], opening["temperature"], opening["max_tokens"]) == ("m", 0.5, 512)
    assert opening["tools"][0]["function"]["name"] == "add"
    assert opening["seed"] != later["seed"]
    results = [(m["tool_call_id"], m["content"]) for m in later["messages"] if m["role"] == "tool"]
    assert results == [("c0", "5"), ("c1", "2")]
    assert json.loads(later["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {
        "a": 2,
        "b": 3,
    }
    assert asked.keys == ["Bearer sk-1"] * 2


def test_malformed_arguments_are_answered_in_the_words_a_local_policy_hears():
    first = said("", [("add", '{"a": 2, "b"'), ("add", '{"a": "x", "b": 1}'), ("sub", "{}")])
    trajectory, _, asked = play(in_turn(first, said("5")))
    outcomes = trajectory.turns[0].outcomes
    assert [o.status for o in outcomes] == ["malformed", "bad_arguments", "unknown_tool"]
    assert "not valid JSON" in outcomes[0].content
    written = asked.bodies[1]["messages"][2]["tool_calls"]
    assert written[0]["function"]["arguments"] == "{}"
    assert trajectory.correct


def test_too_many_malformed_turns_end_it_as_they_end_a_local_one():
    trajectory, _, _ = play(lambda body: said("", [("add", "nonsense")]))
    assert trajectory.stop is Stop.PARSE


def test_a_cut_turn_is_cut_and_its_calls_do_not_run():
    trajectory, _, _ = play(in_turn(said("", [("add", '{"a": 2, "b": 3}')], "length")))
    assert trajectory.stop is Stop.MAX_TOKENS
    assert trajectory.turns[0].outcomes == ()


def test_a_full_context_ends_only_the_episode():
    calls = [("add", '{"a": 2, "b": 3}')]
    full = refused(400, "maximum context length is 10 tokens")
    assert play(in_turn(said("", calls), full))[0].stop is Stop.CONTEXT
    counted = in_turn(said("", calls, usage=(900, 10)))
    limits = Limits(max_context=1000, max_turn_tokens=100)
    assert play(counted, limits)[0].stop is Stop.CONTEXT


def test_the_episodes_budget_of_tokens_is_kept():
    calls = [("add", '{"a": 2, "b": 3}')]
    limits = Limits(max_turn_tokens=8, max_tokens=10)
    trajectory, _, asked = play(lambda body: said("", calls, usage=(9, 5)), limits)
    assert trajectory.stop is Stop.MAX_TOKENS
    assert [body["max_tokens"] for body in asked.bodies] == [8, 5]


def test_what_a_filter_took_is_counted_and_scored_as_said():
    trajectory, facts, _ = play(in_turn(said("4", finish="content_filter")))
    assert (trajectory.stop, trajectory.reward) == (Stop.ANSWER, 0.0)
    assert facts["usage"]["filtered"] == 1
    trajectory, facts, _ = play(in_turn(refused(400, "no", "content_filter")))
    assert (trajectory.stop, facts["usage"]["filtered"]) == (Stop.ANSWER, 1)


def test_a_refusal_in_words_is_an_answer():
    answer = said("")
    answer[1]["choices"][0]["message"] = {"content": None, "refusal": "I won't."}
    assert play(in_turn(answer))[0].answer == "I won't."


def test_a_server_that_breaks_breaks_the_episode_not_the_score():
    calls = [("add", '{"a": 2, "b": 3}')]
    trajectory, facts, _ = play(in_turn(said("", calls), refused(500, "down")))
    assert (trajectory.stop, trajectory.reward) == (Stop.ENV_ERROR, None)
    assert "HTTP 500" in trajectory.problem
    assert facts["usage"]["requests"] == 1


def test_answers_without_a_count_are_counted_as_such():
    facts = play(in_turn(said("5", usage=None)))[1]
    assert facts["usage"]["uncounted"] == 1


def test_what_is_no_completion_is_the_servers_fault():
    with pytest.raises(EnvironmentFault, match="no chat completion"):
        reply_of({"choices": [{"text": "old style"}]}, Talk())


def test_words_may_come_in_parts():
    parts = [{"type": "thinking", "thinking": [1]}, {"type": "text", "text": "5"}, "!"]
    answer = said("")[1]
    answer["choices"][0]["message"]["content"] = parts
    assert reply_of(answer, Talk()).turn.text == "5!"


def test_nonsense_in_a_count_counts_nothing():
    answer = said("5", usage=(-3, "x"))[1]
    found = reply_of(answer, Talk()).usage
    assert (found.prompt_tokens, found.completion_tokens) == (0, 0)


def test_calls_without_an_id_of_their_own_get_one():
    answer = said("", [("a", "{}"), ("b", "{}")])[1]
    for call in answer["choices"][0]["message"]["tool_calls"]:
        call["id"] = ""
    assert reply_of(answer, Talk()).ids == ("call00001", "call00002")
