"""Environments of gymnasium, played with one tool: the toy texts, and small doubles."""

from __future__ import annotations

import json
from contextlib import suppress

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

import agentrl
from agentrl import registry
from agentrl.adapters.words import check_action, parameters_of, plain, shown
from agentrl.errors import BadArguments, UsageError


class Count(gymnasium.Env):
    """Adds up actions; ends at ten."""

    observation_space = spaces.Discrete(100)

    def __init__(self, action_space=None, width=1):
        self.action_space = action_space or spaces.Discrete(3, start=1)
        if width > 1:
            self.observation_space = spaces.Box(0, 255, (width,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = int(self.np_random.integers(3))
        return self.at, {}

    def step(self, action):
        self.at += int(np.sum(action)) if not isinstance(action, str | dict) else 1
        return self.at, float(self.at), self.at >= 10, False, {}


for _name, _kwargs in {
    "Count-v0": {},
    "CountBox-v0": {"action_space": spaces.Box(-1, 1, (2,))},
    "CountPicture-v0": {"width": 5000},
    "CountTuple-v0": {"action_space": spaces.Tuple((spaces.Discrete(2),))},
}.items():
    gymnasium.register(
        f"agentrl_tests/{_name}", lambda _k=_kwargs, **more: Count(**_k), max_episode_steps=4
    )


def act(action):
    call = {"name": "act", "arguments": {"action": action}}
    return f"<tool_call>{json.dumps(call)}</tool_call>"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FrozenLake-v1", "Blackjack-v1"])
def test_toy_texts_pass_every_check_that_applies(name):
    report = agentrl.check_env(f"gymnasium/{name}")
    assert report.ok, str(report)
    skipped = {f.name for f in report.findings if f.status == "skipped"}
    assert skipped == {"reference", "wrong"}, "seeds have no reference solution"


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1"])
def test_the_same_task_is_the_same_episode(name):
    def episode():
        env = registry.make(f"gymnasium/{name}")
        task = env.task_source("test")[5]
        said = [env.reset(seed=3, options={"task": task})[0]]
        words = env.tool_schemas()[0]["function"]["parameters"]["properties"]["action"]["enum"]
        for i in range(20):
            news, reward, terminated, *_ = env.step(act(words[i % len(words)]))
            said.append((news, reward, terminated))
            if terminated:
                break
        env.close()
        return said

    assert repr(episode()) == repr(episode())


def test_a_lake_can_be_crossed():
    env = registry.make("gymnasium/FrozenLake-v1", is_slippery=False)
    env.reset(seed=1)
    assert env.opening[-1]["content"].startswith("Begin.\n\n[S]FFF\n")
    for word in ("down", "down", "right", "right", "down"):
        assert env.step(act(word))[1] == 0
    news, reward, terminated, _, info = env.step(act("right"))
    assert (reward, terminated, info["stop"], info["correct"]) == (1.0, True, "tool_end", True)
    assert news[0]["content"].endswith("The episode is over.")
    env.close()


def test_a_limit_on_steps_cuts_an_episode_short():
    env = registry.make("gymnasium/agentrl_tests/Count-v0")
    env.reset(seed=1)
    for _ in range(3):
        assert env.step(act(1))[2:4] == (False, False)
    news, _, terminated, truncated, info = env.step(act(1))
    assert (terminated, truncated, info["stop"]) == (False, True, "max_turns")
    assert "limit on steps" in news[0]["content"]
    env.reset(seed=1)
    assert env.step(act(1))[2:4] == (False, False), "the next episode has its own steps"
    env.close()


def test_rewards_of_steps_add_up():
    env = registry.make("gymnasium/agentrl_tests/Count-v0")
    env.reset(seed=1)
    rewards, over = [], False
    while not over:
        _, reward, over, _, info = env.step(act(3))
        rewards.append(reward)
    assert len(rewards) >= 3
    assert info["reward_parts"]["tools"] == sum(rewards)
    env.close()


def test_steps_of_one_turn_come_one_after_the_other_and_none_after_the_end():
    env = registry.make("gymnasium/FrozenLake-v1", is_slippery=False)
    env.reset(seed=1)
    news, *_, info = env.step(act("right") + act("down") + act("left"))
    assert [n["content"].splitlines()[-1] for n in news[:1]] == ["Observation: 1"]
    assert news[1]["content"].endswith("The episode is over."), "there is a hole"
    assert news[2]["content"].startswith("not run")
    assert info["stop"] == "tool_end"
    env.close()


@pytest.mark.parametrize("action", ["north", 1, None, True, ["left"], {}, "LEFT", "x" * 10_000])
def test_what_is_no_action_is_answered_in_words(action):
    env = registry.make("gymnasium/FrozenLake-v1")
    env.reset(seed=1)
    (news,), reward, *_ = env.step(act(action))
    assert news["content"].startswith("act: action is one of left, down, right, up")
    assert reward == 0
    env.close()


SPACES = [
    (spaces.Discrete(3, start=1), 2, 2, [0, 4, "x", 1.5, True, None, 10**400]),
    (spaces.Discrete(3, start=1), "3", 3, ["", "9" * 1000]),
    (spaces.Text(4), "abc", "abc", ["", "abcde", 3, None]),
    (spaces.MultiDiscrete([2, 3]), [1, 2], [1, 2], [[1], [1, 3], [1, 2, 0], "ab", [[1], [2]]]),
    (spaces.MultiBinary(2), [1, 0], [1, 0], [[1, 2], [True, False]]),
    (spaces.Box(-1, 1, (2,)), [0.5, "-1"], [0.5, -1], [[2, 0], [0.5], [None, 0], [1e400, 0]]),
]


@pytest.mark.parametrize(("space", "given_", "means", "bad"), SPACES)
def test_actions_of_a_space_are_told_and_checked(space, given_, means, bad):
    schema = parameters_of("x", space, ())
    assert schema["required"] == ["action"]
    action = check_action(space, (), {"action": given_})["action"]
    assert np.array_equal(action, means)
    assert space.contains(action)
    for wrong in bad:
        with pytest.raises(BadArguments, match="act: action"):
            check_action(space, (), {"action": wrong})


def test_a_dict_space_has_a_parameter_for_each_part():
    space = spaces.Dict({"move": spaces.Discrete(2), "say": spaces.Text(5)})
    assert list(parameters_of("x", space, ())["properties"]) == ["move", "say"]
    assert check_action(space, (), {"move": 1, "say": "hi"}) == {"action": {"move": 1, "say": "hi"}}
    for wrong in ({"move": 1}, {"move": 1, "say": "hi", "more": 2}):
        with pytest.raises(BadArguments):
            check_action(space, (), wrong)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))  # fmt: skip
def test_whatever_a_policy_writes_is_an_action_or_answered(given_):
    for space, *_ in SPACES:
        with suppress(BadArguments):
            assert space.contains(check_action(space, (), {"action": given_})["action"])


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("FrozenLake-v11", {}, "Did you mean"),
        ("FrozenLake-v1", {"map_nam": "8x8"}, "map_nam"),
        ("FrozenLake-v1", {"actions": ["a", "b"]}, "2 names for 4 actions"),
        ("FrozenLake-v1", {"actions": "left"}, "Give a list"),
        ("agentrl_tests/CountPicture-v0", {}, "5000 numbers, as pictures are"),
        ("agentrl_tests/CountTuple-v0", {}, "have no words here"),
        ("agentrl_tests/CountBox-v0", {"actions": ["a"]}, "only where their space is Discrete"),
    ],
)
def test_what_cannot_be_played_is_refused_in_words(name, options, said):
    with pytest.raises(UsageError, match=said):
        registry.make(f"gymnasium/{name}", **options)


def test_our_own_environments_keep_their_names():
    with pytest.raises(UsageError, match="Give its own name"):
        registry.make("gymnasium/agentrl.gym:agentrl/tool_math-v0")


def test_names_of_actions_and_rules_can_be_given():
    env = registry.make(
        "gymnasium/agentrl_tests/Count-v0", actions=["one", "two", "three"], prompt="Count."
    )
    env.reset(seed=1)
    assert env.opening[0] == {"role": "system", "content": "Count."}
    before = int(env.opening[-1]["content"].split()[-1])
    assert env.step(act("two"))[0][0]["content"] == str(before + 2)
    env.close()


def test_frames_for_terminals_are_read_without_colours():
    assert plain("\x1b[41mS\x1b[0mFF\n\x1b[34;1mB\x1b[0m\x1b[35mY\x1b[0m\x1b[32mz\x1b[0m") == (
        "[S]FF\n(B){Y}z"
    )


def test_observations_are_text_or_json():
    space = spaces.Dict({"a": spaces.Box(0, 1, (2,)), "b": spaces.Text(5)})
    seen = {"a": np.array([0.1, 0.23456], dtype=np.float32), "b": "ok"}
    assert shown(space, seen) == '{"a": [0.1, 0.2346], "b": "ok"}'
    assert shown(spaces.Text(5), "as it is") == "as it is"
    assert shown(spaces.Tuple((spaces.Discrete(3),)), (np.int64(2),)) == "[2]"
