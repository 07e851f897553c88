"""Adapters of packages that are not beside ours: their logic, on small doubles; then the real ones.

The real packages live in environments of their own, since what they need conflicts with what we
do: `make adapters` builds them.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from agentrl import registry
from agentrl.adapted import ADAPTERS, adapted
from agentrl.adapters.gem import Gem
from agentrl.adapters.traces import trace_of
from agentrl.errors import UsageError
from agentrl.message import AssistantTurn, Message, ToolCall, ToolOutcome, Turn
from agentrl.task import Task
from agentrl.trajectory import Stop, Trajectory

ROOT = Path(__file__).parents[1]


class Guesses:
    """As GEM's games are: it draws from the process's generators, and marks an end twice."""

    def reset(self, seed=None):
        random.seed(seed)
        self.number, self.turns = random.randint(1, 9), 0
        return "Guess a digit.", {"suffix": "Go on."}

    def step(self, action):
        self.turns += 1
        lucky = random.random()
        if action == str(self.number):
            return "over", 1.0, True, True, {}
        if self.turns == 5:
            return "late", 0.25, False, True, {}
        return f"no ({lucky:.6f})", -0.125, False, False, {"suffix": "Go on."}


class ToyGem(Gem):
    """An adapter around a double."""

    gem_id = "toy"

    @property
    def _world(self):
        return self.__dict__.setdefault("_double", Guesses())


def words(env, task):
    env.reset(seed=1, options={"task": task})
    return [env.step("x")[0] for _ in range(3)]


def test_texts_with_a_scheme_lead_to_adapters_and_others_do_not():
    assert adapted("tool_math") is None
    assert adapted("gymnasium/file.py:Mine") is None
    assert adapted("nobody/x") is None
    assert registry.resolve("gymnasium/FrozenLake-v1") is adapted("gymnasium/FrozenLake-v1")


@pytest.mark.parametrize("scheme", sorted(ADAPTERS))
def test_a_scheme_alone_names_nothing(scheme):
    with pytest.raises(UsageError, match=f"Write {scheme}/NAME"):
        adapted(f"{scheme}/")


@pytest.mark.parametrize(("scheme", "module"), [("gem", "gem"), ("verifiers", "verifiers")])
def test_a_package_that_is_missing_is_named_with_the_way_to_get_it(scheme, module):
    try:
        __import__(module)
    except ImportError:
        with pytest.raises(UsageError, match=rf"pip install 'agentrl-pods\[{scheme}\]'"):
            adapted(f"{scheme}/anything")
    else:
        pytest.skip(f"{module} is installed here")


def test_turns_are_steps_and_observations_the_users_words():
    env = ToyGem()
    env.reset(seed=1)
    assert env.opening[-1]["content"] == "Begin.\n\nGuess a digit."
    news, *_ = env.step("x")
    assert news[0]["role"] == "user"
    assert news[0]["content"].endswith("\nGo on.")
    env.close()


def test_an_end_marked_twice_is_an_end_and_rewards_add_up():
    env = ToyGem()
    env.reset(seed=1)
    env.step("x")
    _, reward, terminated, truncated, info = env.step(str(env._world.number))
    assert (terminated, truncated, info["stop"]) == (True, False, "answer")
    assert reward == 1.0 - 0.125
    env.close()


def test_what_is_truncated_alone_is_cut_short():
    env = ToyGem()
    env.reset(seed=1)
    for _ in range(4):
        assert env.step("x")[2:4] == (False, False)
    _, reward, terminated, truncated, info = env.step("x")
    assert (terminated, truncated, info["stop"]) == (False, True, "max_turns")
    assert reward == 0.25 - 4 * 0.125
    env.close()


def test_episodes_side_by_side_draw_as_each_would_alone_and_leave_the_process_its_generators():
    first, second = ToyGem(), ToyGem()
    tasks = [first.task_source("train")[i] for i in range(2)]
    alone = [words(env, task) for env, task in zip((first, second), tasks, strict=True)]
    before = random.getstate(), repr(np.random.get_state())
    for env, task in zip((first, second), tasks, strict=True):
        env.reset(seed=1, options={"task": task})
    beside: list[list[Any]] = [[], []]
    for _ in range(3):
        for said, env in zip(beside, (first, second), strict=True):
            said.append(env.step("x")[0])
    assert beside == alone
    assert alone[0] != alone[1]
    assert (random.getstate(), repr(np.random.get_state())) == before


@dataclass
class Record:
    """Whatever verifiers calls its records, with the fields that it was given."""

    kind: str
    given: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name):
        try:
            return self.given[name]
        except KeyError:
            raise AttributeError(name) from None


def record(kind, **fixed):
    return lambda **given: Record(kind, {"nodes": [], **fixed, **given})


VF = SimpleNamespace(
    Trace=record("Trace"),
    TraceTask=record("TraceTask"),
    AgentInfo=record("AgentInfo"),
    AgentConfig=record("AgentConfig"),
    MessageNode=record("MessageNode"),
    SystemMessage=record("SystemMessage", role="system"),
    UserMessage=record("UserMessage", role="user"),
    AssistantMessage=record("AssistantMessage", role="assistant"),
    ToolMessage=record("ToolMessage", role="tool"),
    ToolCall=record("ToolCall"),
)


def test_an_episode_becomes_a_trace_whose_results_refer_to_their_calls():
    task = Task("1 + 2 = ?", "3")
    calls = (ToolCall("add", {"a": 1}), ToolCall("add", {"a": 2}))
    turns = (
        Turn(AssistantTurn("so", calls), (ToolOutcome("add", "1"), ToolOutcome("add", "2"))),
        Turn(AssistantTurn("", calls[:1]), (ToolOutcome("add", "1"),)),
        Turn(AssistantTurn("3")),
    )
    opening = (Message(role="assistant", content="hello"), *task.opening())
    played = Trajectory(task, 0, 0, opening, turns, Stop.MAX_TURNS)
    theirs = SimpleNamespace(data={}, key="k", hash="h")
    trace = trace_of(VF, theirs, "state", played)
    nodes = trace.nodes
    assert [n.parent for n in nodes] == [None, *range(len(nodes) - 1)]
    assert [n.sampled for n in nodes] == [False, False, True, False, False, True, False, True]
    made = [c.id for n in nodes for c in n.message.given.get("tool_calls") or ()]
    results = [n.message.tool_call_id for n in nodes if n.message.kind == "ToolMessage"]
    assert made == results == ["call_0", "call_1", "call_2"]
    assert json.loads(nodes[2].message.tool_calls[1].arguments) == {"a": 2}
    assert (trace.stop_condition, trace.state) == ("max_turns", "state")


@pytest.mark.slow
@pytest.mark.parametrize("place", [".venv-adapters", ".venv-openenv"])
def test_the_real_packages_play_through_our_adapters(place):
    python = ROOT / place / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{place} is not there: `make adapters` builds it")
    path = os.pathsep.join(str(ROOT / folder) for folder in (".", "environments", "tools"))
    done = subprocess.run(
        [str(python), str(ROOT / "tests" / "real_adapters.py"), place],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
