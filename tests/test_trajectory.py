import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.errors import EngineError
from agentrl.message import AssistantTurn, ToolCall, ToolOutcome, Turn
from agentrl.task import Task
from agentrl.trajectory import Branch, Span, Stop, Trajectory, tool_failures

ids = st.lists(st.integers(0, 500), max_size=6).map(tuple)


@st.composite
def spans(draw):
    kind = draw(st.sampled_from(["prompt", "sampled", "observation", "scaffold"]))
    tokens = draw(ids)
    logprobs = None
    if kind == "sampled" and draw(st.booleans()):
        logprobs = tuple(draw(st.floats(-20, 0)) for _ in tokens)
    return Span(kind, tokens, logprobs)


@given(st.lists(spans(), max_size=8))
def test_ids_mask_and_logprobs_have_equal_length_after_every_append(parts):
    branch = Branch()
    for part in parts:
        branch = branch.plus(part)
        assert len(branch.input_ids) == len(branch.loss_mask) == len(branch.logprobs)
    sampled = [i for part in parts if part.kind == "sampled" for i in part.ids]
    kept = [i for i, m in zip(branch.input_ids, branch.loss_mask, strict=True) if m]
    assert kept == sampled


@given(st.lists(spans(), max_size=8))
def test_tokens_nobody_sampled_have_no_logprob_and_absent_ones_are_never_zero(parts):
    branch = Branch().plus(*parts)
    values = iter(branch.logprobs)
    for part in branch.spans:
        for position in range(len(part.ids)):
            value = next(values)
            if part.logprobs is None:
                assert math.isnan(value)
            else:
                assert value == part.logprobs[position]


def test_a_span_whose_engine_lost_a_token_is_refused():
    with pytest.raises(EngineError, match="2 sampled ids but 1 log-probs"):
        Span("sampled", (1, 2), (-0.5,))


def test_an_observation_cannot_carry_logprobs():
    with pytest.raises(EngineError, match="observation"):
        Span("observation", (1,), (-0.5,))


def test_a_turn_without_sampled_tokens_trains_nothing():
    branch = Branch().plus(Span("prompt", (1, 2, 3)), Span("sampled", ()))
    assert branch.loss_mask == [0, 0, 0]


@pytest.mark.parametrize("stop", list(Stop))
def test_every_stop_has_one_status(stop):
    expected = {"answer": "ok", "tool_end": "ok", "env_error": "error"}
    assert stop.status == expected.get(stop.value, "truncated")
    assert stop.terminated == (stop.status == "ok")


def test_the_answer_is_the_text_of_the_last_turn():
    call = ToolCall("add", {"a": 1})
    turns = (
        Turn(AssistantTurn("let me see", (call,)), (ToolOutcome("add", "no", "error"),)),
        Turn(AssistantTurn("4")),
    )
    t = Trajectory(Task("2+2?", "4"), 0, 0, (), turns, Stop.ANSWER, reward=1.0)
    assert t.answer == "4"
    assert [m["role"] for m in t.messages] == ["assistant", "tool", "assistant"]
    assert t.messages[0]["tool_calls"][0]["function"]["arguments"] == {"a": 1}
    assert tool_failures(t.turns) == 1


def test_infrastructure_failures_and_unscored_episodes_are_not_valid():
    def played(stop, reward):
        return Trajectory(Task("q"), 0, 0, (), (), stop, reward=reward)

    assert played(Stop.MAX_TURNS, 0.0).valid
    assert not played(Stop.ENV_ERROR, 0.0).valid
    assert not played(Stop.ANSWER, None).valid


def test_a_trajectory_counts_the_tokens_of_all_its_branches():
    one = Branch().plus(Span("prompt", (1, 2)), Span("sampled", (3,), (-1.0,)))
    two = Branch().plus(Span("prompt", (1, 2, 3)), Span("sampled", (4, 5), (-1.0, -2.0)))
    t = Trajectory(Task("q"), 0, 0, (), (), Stop.ANSWER, (one, two), reward=1.0)
    assert (t.num_tokens, t.num_trained_tokens) == (8, 3)
    assert t.input_ids == [1, 2, 3, 1, 2, 3, 4, 5]
    assert t.loss_mask == [0, 0, 1, 0, 0, 0, 1, 1]


def test_the_oldest_weights_of_a_trajectory_are_those_of_its_oldest_tokens():
    spans = Span("prompt", (1,)), Span("sampled", (2,), (-1.0,), 4), Span("sampled", (3,), None, 3)
    t = Trajectory(Task("q"), 0, 0, (), (), Stop.ANSWER, (Branch().plus(*spans),), version=4)
    assert t.oldest == 3
