"""An OpenEnv server as an environment: its protocol, spoken by a double on this machine."""

from __future__ import annotations

import json
import time

import pytest

import agentrl
from agentrl import registry
from agentrl.errors import UsageError
from tests.openenv_server import BREAKS, HANGS_UP, REFUSED, TOOLS, serving


@pytest.fixture
def server():
    with serving() as (url, sessions):
        yield f"openenv/{url}", sessions


def call(name="act", **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def guess(env):
    """Halve until it is found."""
    low, high = 1, 100
    while True:
        middle = (low + high) // 2
        news, reward, terminated, _, info = env.step(call(number=middle))
        if terminated:
            return reward, info
        low, high = (middle + 1, high) if news[0]["content"] == "higher" else (low, middle - 1)


def test_an_episode_goes_over_one_session_and_ends_with_it(server):
    text, sessions = server
    env = registry.make(text, prompt="Find it.")
    env.reset(seed=1)
    assert env.opening[0]["content"] == "Find it."
    assert env.opening[-1]["content"] == "Begin.\n\nGuess."
    assert len(sessions) == 1
    reward, info = guess(env)
    assert (reward, info["stop"], info["correct"]) == (1.0, "tool_end", True)
    env.close()
    until = time.monotonic() + 10
    while sessions and time.monotonic() < until:
        time.sleep(0.01)
    assert not sessions


def test_the_same_task_is_the_same_episode(server):
    text, _ = server
    numbers = []
    for _ in range(2):
        env = registry.make(text)
        env.reset(seed=1, options={"task": env.task_source("test")[3]})
        guess(env)
        numbers.append([turn.outcomes[0].content for turn in env.turns])
        env.close()
    assert numbers[0] == numbers[1]


def test_the_schema_is_the_servers_without_what_is_no_word_for_a_policy(server):
    env = registry.make(server[0])
    env.reset(seed=1)
    (schema,) = env.tool_schemas()
    assert schema["function"]["description"] == "Guess the number."
    assert list(schema["function"]["parameters"]["properties"]) == ["number"]
    env.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "'number' is a required property"),
        ({"number": "x"}, "'x' is not of type 'integer'"),
        ({"number": 5, "more": 1}, "more"),
        ({"number": REFUSED}, "number: too small"),
    ],
)
def test_a_bad_action_is_answered_in_words_and_the_episode_goes_on(server, arguments, said):
    env = registry.make(server[0])
    env.reset(seed=1)
    (news,), *_, info = env.step(call(**arguments))
    assert said in news["content"]
    assert info["stop"] is None
    env.close()


@pytest.mark.parametrize("number", [BREAKS, HANGS_UP])
def test_a_server_that_breaks_or_hangs_up_is_a_fault_and_no_reward(server, number):
    env = registry.make(server[0])
    env.reset(seed=1)
    *_, info = env.step(call(number=number))
    assert info["stop"] == "env_error"
    env.close()


def test_tools_of_mcp_are_tools():
    with serving(TOOLS) as (url, _):
        env = registry.make(f"openenv/{url}")
        env.reset(seed=1)
        (schema,) = env.tool_schemas()
        assert schema["function"]["name"] == "look"
        (news,), *_ = env.step(call("look", where="bag"))
        assert news["content"] == '{"result": {"found": false}}'
        _, reward, terminated, *_ = env.step(call("look", where="box"))
        assert (reward, terminated) == (1.0, True)
        env.close()


def test_arguments_of_reset_are_options(server):
    env = registry.make(server[0], most=1)
    env.reset(seed=1)
    assert env.step(call(number=1))[2]
    env.close()


@pytest.mark.parametrize("text", ["localhost:8000", "ftp://x", "http://127.0.0.1:1"])
def test_where_no_server_answers_is_said_in_words(text):
    with pytest.raises(UsageError, match="--env openenv/"):
        registry.make(f"openenv/{text}")


@pytest.mark.slow
def test_it_passes_every_check_that_applies(server):
    report = agentrl.check_env(server[0])
    assert report.ok, str(report)
    skipped = {f.name for f in report.findings if f.status == "skipped"}
    assert skipped == {"reference", "wrong"}, "seeds have no reference solution"
