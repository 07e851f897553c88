"""What `start` opened is given back, however an episode ends."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import pytest
from pydantic import Field

from agentrl.engines.scripted import ScriptedEngine
from agentrl.env import ToolEnv
from agentrl.episode import Limits, Play, Seat, play
from agentrl.errors import EnvironmentFault
from agentrl.message import AssistantTurn, Turn
from agentrl.policy import Sampling
from agentrl.record import Mark, episode_row
from agentrl.render import renderer_for
from agentrl.task import Task
from agentrl.tooling import ToolResult, tool
from agentrl.trajectory import Stop, Trajectory
from tests.doubles import ReadableTokenizer

TASK = Task("2+2?", "4")


def call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class Lender(ToolEnv):
    """It writes down what was opened and given back."""

    def __init__(self, breaks=""):
        self.breaks = breaks
        self.log = []

    def start(self, task):
        self.log.append("start")
        if self.breaks == "start":
            raise RuntimeError("no room")

    def release(self):
        self.log.append("release")
        if self.breaks == "release":
            raise RuntimeError("it is stuck")

    def reward(self, task, trajectory):
        self.log.append("reward")
        return float(trajectory.answer == task.answer)

    @tool
    def weigh(self, grams: Annotated[float, Field(allow_inf_nan=True)]) -> ToolResult:
        """Weigh something."""
        return ToolResult("weighed", metrics={"grams": grams}, is_error=grams < 0)


def test_close_gives_back_once_and_another_reset_gives_back_the_last_episode_first():
    env = Lender()
    env.reset(options={"task": TASK})
    env.reset(options={"task": TASK})
    env.close()
    env.close()
    assert env.log == ["start", "release", "start", "release"]


def test_a_start_that_breaks_half_way_is_given_back_too():
    env = Lender(breaks="start")
    with pytest.raises(EnvironmentFault, match="no room"):
        env.reset(options={"task": TASK})
    env.close()
    assert env.log == ["start", "release"]


def test_an_environment_never_reset_has_nothing_to_give_back():
    env = Lender()
    env.close()
    assert env.log == []


def test_a_release_that_breaks_is_the_environments_fault():
    env = Lender(breaks="release")
    env.reset(options={"task": TASK})
    with pytest.raises(EnvironmentFault, match=r"Lender\.release: RuntimeError: it is stuck"):
        env.close()
    env.close()


def test_closing_inside_an_event_loop_says_what_to_write_there():
    env = Lender()

    async def main():
        await env.areset(options={"task": TASK})
        with pytest.raises(Exception, match=r"await env\.arelease\(\)"):
            env.close()
        await env.arelease()

    asyncio.run(main())
    env.close()
    assert env.log == ["start", "release"]


def played(env):
    engine = ScriptedEngine(ReadableTokenizer(), {((0, 0), 0): "4"})
    world = Play(engine, renderer_for(ReadableTokenizer()), Sampling(), Limits())
    return asyncio.run(play(env, Seat(TASK, 0, 0, 1), world))


def test_an_episode_is_scored_before_it_is_given_back():
    env = Lender()
    assert played(env).reward == 1.0
    assert env.log == ["start", "reward", "release"]


def test_an_episode_that_could_not_be_given_back_is_not_trained_on():
    trajectory = played(Lender(breaks="release"))
    assert trajectory.stop is Stop.ENV_ERROR
    assert "it is stuck" in trajectory.problem


def test_numbers_of_a_tool_reach_the_record_and_not_the_policy():
    env = Lender()
    env.reset(options={"task": TASK})
    news, *_ = env.step(call("weigh", grams=2) + call("weigh", grams=4))
    env.close()
    assert [m["content"] for m in news] == ["weighed", "weighed"]
    played = Trajectory(TASK, 0, 0, (), env.turns, Stop.ANSWER)
    assert played.metrics == {"grams": 3.0}
    assert episode_row(played, Mark(), tokens=False)["metrics"] == {"grams": 3.0}
    silent = Trajectory(TASK, 0, 0, (), (Turn(AssistantTurn("hm")),), Stop.ANSWER)
    assert "metrics" not in episode_row(silent, Mark(), tokens=False)


def test_a_result_that_is_an_error_counts_as_a_failed_call():
    env = Lender()
    env.reset(options={"task": TASK})
    env.step(call("weigh", grams=-1))
    env.close()
    assert [o.status for o in env.turns[0].outcomes] == ["error"]


def test_a_number_of_a_tool_that_is_not_finite_is_the_environments_fault():
    env = Lender()
    env.reset(options={"task": TASK})
    *_, info = env.step('<tool_call>{"name": "weigh", "arguments": {"grams": "inf"}}</tool_call>')
    env.close()
    assert info["stop"] == "env_error"
    assert "grams is inf" in info["problem"]
