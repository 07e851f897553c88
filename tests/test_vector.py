"""Vector environments by name."""

from __future__ import annotations

import pytest

import agentrl
from agentrl import registry
from agentrl.errors import UsageError

LOOK = '<tool_call>{"name": "calculator", "arguments": {"expression": "2^10"}}</tool_call>'


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_copies_are_stepped_together_and_text_stays_whole(mode):
    envs = agentrl.make_vec("tool_math", 2, vectorization_mode=mode, difficulty="easy")
    opening, _ = envs.reset(seed=3)
    news, rewards, ended, cut, _ = envs.step((LOOK, "Answer: π 中"))
    envs.close()
    assert [m[-1]["role"] for m in opening] == ["user", "user"]
    assert opening[0] != opening[1]
    assert [m["content"] for m in news[0]] == ["1024"]
    assert (list(rewards), list(ended), list(cut)) == ([0.0, 0.0], [False, True], [False, False])


def test_another_process_finds_what_only_this_one_has_registered(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    agentrl.register("labels", "tests.bad_envs:Good")
    envs = agentrl.make_vec("labels", 1, vectorization_mode="async")
    opening, _ = envs.reset(seed=1)
    envs.close()
    assert opening[0][0]["content"].startswith("How is box")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "tool_mth", "n": 2}, "Did you mean tool_math"),
        ({"name": "tool_math", "n": 0}, "n is 0"),
        ({"name": "tool_math", "n": 2, "vectorization_mode": "threads"}, "sync and async"),
        ({"name": "tool_math", "n": 2, "dificulty": "easy"}, "Did you mean difficulty"),
    ],
)
def test_what_cannot_be_made_is_refused(given, message):
    with pytest.raises(UsageError, match=message):
        agentrl.make_vec(**given)
