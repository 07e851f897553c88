import pickle

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from agentrl import registry
from agentrl.env import ToolEnv
from agentrl.gym import register_envs
from agentrl.message import AssistantTurn
from agentrl.spaces import ActionSpace, MessagesSpace
from agentrl.task import ListTasks, Task
from agentrl.tooling import ToolResult, tool

CALL = '<tool_call>{"name": "lookup", "arguments": {"word": "π 中"}}</tool_call>'


class Library(ToolEnv):
    """A library to look words up in."""

    def __init__(self, shelf="A"):
        self.shelf = shelf

    @classmethod
    def tasks(cls, split):
        return ListTasks([Task(f"Wörter {i}?", str(i)) for i in range(20)])

    @tool
    def lookup(self, word: str) -> ToolResult:
        """Look a word up."""
        return ToolResult(f"{self.shelf}: {word} {self.np_random.integers(100)}", reward=0.5)

    def reward(self, task, trajectory):
        return float(trajectory.answer == task.answer)


@pytest.fixture
def library_id(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    registry.register("library", f"{__name__}:Library")
    assert "agentrl/library-v0" in register_envs()
    yield "agentrl/library-v0"
    del gymnasium.registry["agentrl/library-v0"]


def test_what_gymnasium_makes_passes_its_own_checks(library_id):
    check_env(gymnasium.make(library_id, disable_env_checker=True).unwrapped)


def test_an_id_takes_options_and_wrapped_steps_work(library_id):
    env = gymnasium.make(library_id, shelf="B")
    messages, info = env.reset(seed=3)
    assert messages[0]["content"].startswith("Wörter")
    messages, reward, terminated, truncated, info = env.step(CALL)
    assert messages[0]["content"].startswith("B: π 中 ")
    assert (reward, terminated, truncated, info["stop"]) == (0.5, False, False, None)
    assert env.step("0")[2]
    env.close()


def test_ids_are_registered_once():
    assert register_envs() == register_envs()


def test_spaces_contain_unicode_and_what_they_sample():
    observations, actions = MessagesSpace(seed=1), ActionSpace(seed=1)
    assert all(observations.sample() in observations for _ in range(50))
    assert all(actions.sample() in actions for _ in range(50))
    assert "hello π 中" in actions
    assert AssistantTurn("π") in actions
    assert [] in observations
    assert [{"role": "user", "content": "π"}] in observations
    assert 3 not in actions
    assert "text" not in observations
    assert [{"role": "robot", "content": "x"}] not in observations
    assert [{"role": "user", "content": None}] not in observations


def test_spaces_are_equal_by_kind_and_survive_pickling():
    assert ActionSpace() == pickle.loads(pickle.dumps(ActionSpace())) != MessagesSpace()
    assert not ActionSpace().is_np_flattenable
    assert str(ActionSpace()) == "ActionSpace()"


def test_instances_have_spaces_of_their_own():
    assert Library().action_space is not Library().action_space


def steps_of(envs):
    opening, _ = envs.reset(seed=7)
    first = envs.step((CALL, CALL))
    last = envs.step(("0", "no"))
    again = envs.step(("ignored", "ignored"))
    envs.close()
    return opening, first, last, again


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_vector_environments_keep_text_whole_and_reset_by_themselves(kind):
    made = [Library, Library]
    envs = SyncVectorEnv(made) if kind == "sync" else AsyncVectorEnv(made, shared_memory=False)
    opening, first, last, again = steps_of(envs)
    assert [m[0]["content"].split()[0] for m in opening] == ["Wörter", "Wörter"]
    assert [m[0]["content"][:6] for m in first[0]] == ["A: π 中"] * 2
    assert first[0][0] != first[0][1]
    assert list(first[1]) == [0.5, 0.5]
    assert list(last[2]) == [True, True]
    assert list(last[4]["stop"]) == ["answer", "answer"]
    assert [m[0]["role"] for m in again[0]] == ["user", "user"]


def test_an_environment_that_nobody_closed_leaves_no_loop_open(recwarn):
    env = Library()
    env.reset(seed=1)
    del env
    assert [str(w.message) for w in recwarn] == []


def test_close_may_be_repeated_and_a_closed_environment_may_be_reset():
    env = Library()
    env.reset()
    env.close()
    env.close()
    env.reset()
    env.close()
