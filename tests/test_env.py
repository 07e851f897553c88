import asyncio
import copy
import json
import math
import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pytest

import agentrl
from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault, ToolError, UsageError
from agentrl.message import AssistantTurn, Message, ToolCall
from agentrl.task import ListTasks, Task
from agentrl.tooling import ToolResult, tool
from agentrl.trajectory import Branch, Span, Stop

TASK = Task("2+2?", "4", id="four")


def call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


BAD = "<tool_call>{bad}</tool_call>"


class Desk(ToolEnv):
    """A desk with a notebook."""

    max_turns = 4
    max_tool_calls = 6
    max_parse_errors = 1
    max_result_chars = 200
    system_prompt = "Be exact."

    def __init__(self, worth=None):
        self.worth = worth

    @classmethod
    def tasks(cls, split):
        return ListTasks([Task(f"{split} {i}?", str(i)) for i in range(50)])

    def start(self, task):
        self.notes = []
        self.trajectory = None

    @tool
    def note(self, word: str, reward: float = 0.0, terminate: bool = False) -> ToolResult:
        """Write a word down."""
        self.notes.append(word)
        return ToolResult(" ".join(self.notes), reward, terminate)

    @tool
    def broken(self) -> str:
        """Fail."""
        raise EnvironmentFault("the notebook is lost")

    @tool
    def draw(self) -> str:
        """Draw a number."""
        return str(self.np_random.integers(10**9))

    def reward(self, task, trajectory):
        self.trajectory = trajectory
        if self.worth is not None:
            return self.worth() if callable(self.worth) else self.worth
        return float(trajectory.answer == task.answer)


def play(env, *actions, task=TASK, seed=0):
    """Reset, then step until the actions or the episode end; the last step's result."""
    env.reset(seed=seed, options={"task": task})
    result = None
    for action in actions:
        result = env.step(action)
    env.close()
    return result


# Opening


def test_reset_returns_the_opening_and_whose_task_it_is():
    env = Desk()
    messages, info = env.reset(options={"task": TASK, "split": "test"})
    assert messages == [
        {"role": "system", "content": "Be exact."},
        {"role": "user", "content": "2+2?"},
    ]
    assert info == {"task_id": "four", "split": "test"}
    assert list(env.opening) == messages
    env.close()


def test_what_start_says_joins_the_users_words():
    class Greeting(Desk):
        async def start(self, task):
            return f"dice: {self.np_random.integers(10**6)}"

    env = Greeting()
    first = env.reset(seed=1, options={"task": TASK})[0]
    other = env.reset(seed=2, options={"task": TASK})[0]
    assert [m["role"] for m in first] == ["system", "user"]
    assert first[-1]["content"].startswith("2+2?\n\ndice: ")
    assert first != other
    env.close()


def test_a_conversation_with_its_own_system_message_gets_no_second_one():
    prompt = (
        Message(role="system", content="You sell."),
        Message(role="user", content="Hi"),
        Message(role="assistant", content="Hello"),
    )

    class Shop(Desk):
        def start(self, task):
            return "Now?"

    env = Shop()
    messages, _ = env.reset(options={"task": Task(prompt)})
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user"]
    assert messages[0]["content"] == "Be exact.\n\nYou sell."
    assert prompt[0]["content"] == "You sell."
    env.close()


def test_what_a_caller_does_to_an_observation_changes_no_record():
    env = Desk()
    messages, _ = env.reset(options={"task": TASK})
    messages[0]["content"] = "spoiled"
    assert env.opening[0]["content"] == "Be exact."
    env.close()


def test_nor_does_what_it_does_deep_inside_of_one():
    made = {"type": "function", "function": {"name": "note", "arguments": {"word": "a"}}}
    said = {"role": "assistant", "content": "", "tool_calls": [made]}
    task, env = Task([{"role": "user", "content": "Note it."}, said]), Desk()
    kept = copy.deepcopy(task.prompt)
    messages, _ = env.reset(options={"task": task})
    record = copy.deepcopy(env.opening)
    for owned in (messages, env.opening):
        assert env.opening == record
        owned[-1]["tool_calls"][0]["function"]["arguments"]["word"] = "spoiled"
        owned[-2]["content"] = "spoiled"
    assert task.prompt == kept
    env.close()


def test_a_task_is_drawn_from_the_split_with_the_episodes_own_generator():
    env = Desk()
    drawn = [env.reset(seed=seed, options={"split": "test"}) for seed in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]
    assert drawn[0][0][-1]["content"].startswith("test ")
    assert env.reset(seed=3)[1]["split"] == "train"
    env.close()


def test_options_of_an_instance_reach_its_tasks():
    class Sized(Desk):
        def __init__(self, size):
            super().__init__()
            self.size = size

        def task_source(self, split):
            return ListTasks([Task(f"{self.size}?")])

    assert Sized(7).reset()[0][-1]["content"] == "7?"


def test_options_that_are_none_and_tasks_that_are_none_are_refused():
    class Bare(ToolEnv):
        """Nothing."""

    class Empty(Desk):
        @classmethod
        def tasks(cls, split):
            return ListTasks([])

    with pytest.raises(UsageError, match=r"'splt' is not an option. Did you mean split\?"):
        Desk().reset(options={"splt": "test"})
    with pytest.raises(UsageError, match="option task is a str"):
        Desk().reset(options={"task": "2+2?"})
    with pytest.raises(UsageError, match="Bare: it has no tasks"):
        Bare().reset()
    with pytest.raises(UsageError, match="there are no train tasks"):
        Empty().reset()


# Turns


def test_an_observation_is_only_what_is_new():
    env = Desk()
    env.reset(options={"task": TASK})
    first = env.step("I note. " + call("note", word="a"))
    second = env.step(call("note", word="b") + call("none"))
    assert first[:4] == ([{"role": "tool", "name": "note", "content": "a"}], 0.0, False, False)
    assert first[4] == {"stop": None, "reward_parts": {}}
    assert [m["content"] for m in second[0]] == [
        "a b",
        "unknown tool none. Did you mean note? Available: note, broken, draw.",
    ]
    env.close()


def test_an_answer_ends_the_episode_and_is_scored():
    result = play(Desk(), call("note", word="4"), "4")
    assert result == (
        [], 1.0, True, False, {"stop": "answer", "reward_parts": {"reward": 1.0}, "correct": True},
    )  # fmt: skip


def test_the_answer_is_the_last_thing_said_not_the_first():
    assert play(Desk(), "3 " + call("note", word="x"), "4")[1] == 1.0
    assert play(Desk(), "4 " + call("note", word="x"), "3")[1] == 0.0


def test_a_parsed_turn_is_as_good_as_text():
    turn = AssistantTurn("", (ToolCall("note", {"word": "x"}),))
    assert play(Desk(), turn)[0] == play(Desk(), call("note", word="x"))[0]


def test_a_reply_goes_on_and_none_ends():
    class Talk(Desk):
        def reply(self, turn):
            return "sure?" if turn.text == "5" else None

    env = Talk()
    env.reset(options={"task": TASK})
    assert env.step("5")[0] == [{"role": "user", "content": "sure?"}]
    assert env.step("4")[4]["stop"] == "answer"
    assert [turn.reply for turn in env.turns] == ["sure?", None]
    env.close()


def test_an_environment_without_tools_is_played_too():
    class Quiz(ToolEnv):
        """No tools."""

        def reward(self, task, trajectory):
            return self.compare(task, trajectory)

        async def compare(self, task, trajectory):
            return trajectory.answer == task.answer

    env = Quiz()
    assert env.tool_schemas() == []
    assert play(env, call("note", word="x"), "4")[1] == 1.0
    assert env.turns[0].outcomes[0].content == "unknown tool note. There are no tools here."


def test_results_are_clipped_in_characters_and_then_by_the_driver():
    env = Desk()
    env.clip = lambda text: text[:5]
    assert play(env, call("note", word="w" * 999))[0][0]["content"] == "wwwww"
    assert len(play(Desk(), call("note", word="w" * 999))[0][0]["content"]) <= 200


# Malformed turns


def test_a_malformed_call_is_answered_and_the_sound_one_beside_it_runs():
    env = Desk()
    messages = play(env, BAD + call("note", word="x"))[0]
    assert [o.status for o in env.turns[0].outcomes] == ["malformed", "ok"]
    assert messages[0]["content"].startswith("malformed call: not valid JSON")


def test_malformed_turns_in_a_row_end_the_episode_and_others_do_not():
    assert play(Desk(), BAD, BAD)[4]["stop"] == "parse"
    assert play(Desk(), BAD, BAD + call("note", word="x"), BAD)[4]["stop"] is None
    assert play(Desk(), call("unknown"), call("note"), call("unknown"))[4]["stop"] is None


def test_every_stop_terminates_or_truncates_and_never_both():
    cut = AssistantTurn("4", (ToolCall("note", {"word": "x"}),), finish_reason="length")
    one = call("note", word="x")
    for actions, stop in (
        (["4"], "answer"),
        ([call("note", word="x", terminate=True)], "tool_end"),
        ([one] * 4, "max_turns"),
        ([one] * 3 + ["4"], "answer"),
        ([one] * 3 + [call("note", word="x", terminate=True)], "tool_end"),
        ([one * 6], None),
        ([one * 6, BAD], "max_tool_calls"),
        ([cut], "max_tokens"),
        ([BAD, BAD], "parse"),
        ([call("broken")], "env_error"),
    ):
        _, _, terminated, truncated, info = play(Desk(), *actions)
        assert info["stop"] == stop
        assert (terminated, truncated) == (
            stop in ("answer", "tool_end"), stop not in ("answer", "tool_end", None)
        )  # fmt: skip


def test_a_turn_cut_by_length_runs_no_tools():
    env = Desk()
    turn = AssistantTurn("", (ToolCall("note", {"word": "x"}),), finish_reason="length")
    assert play(env, turn)[4]["stop"] == "max_tokens"
    assert (env.notes, env.turns[0].outcomes) == ([], ())


def test_a_turn_beyond_the_limit_of_calls_runs_none_of_them():
    env = Desk()
    play(env, call("note", word="x") * 7)
    assert env.notes == []


def test_a_reply_after_the_last_turn_ends_with_max_turns():
    class Talk(Desk):
        def reply(self, turn):
            return "go on"

    assert play(Talk(), *"1234")[4]["stop"] == "max_turns"


# Rewards


def test_rewards_of_the_steps_add_up_to_the_episodes():
    env = Desk()
    env.reset(options={"task": TASK})
    given = [
        env.step(call("note", word="x", reward=0.25))[1],
        env.step(call("note", word="x", reward=0.5, terminate=True))[1],
    ]
    assert given == [0.25, 0.5]
    assert env.end.reward == 0.75
    assert env.end.parts == {"reward": 0.0, "tools": 0.75}
    env.close()


def test_named_parts_are_summed_and_kept():
    result = play(Desk(worth={"correct": True, "style": -0.75}), "4")
    assert result[1] == 0.25
    assert result[4]["reward_parts"] == {"correct": 1.0, "style": -0.75}


@pytest.mark.parametrize(
    ("worth", "correct"),
    [
        (1.0, True),
        (0.99, False),
        ({"correct": 0.5, "style": -9}, True),
        ({"correct": 0.4, "style": 9}, False),
        ({"style": 2}, True),
    ],
)
def test_correct_is_its_own_part_or_else_a_reward_of_success(worth, correct):
    env = Desk(worth=worth)
    play(env, "4")
    assert env.end.correct is correct


@pytest.mark.parametrize(
    "worth",
    [
        math.nan,
        math.inf,
        {"a": math.nan},
        {"a": 1e308, "b": 1e308},
        -1e308,
        "1.0",
        {"a": None},
        {"tools": 1.0},
        [1.0],
        pytest.param(lambda: 1 / 0, id="raises"),
    ],
)
def test_an_unusable_reward_is_the_environments_fault_and_never_zero(worth):
    env = Desk(worth=worth)
    _, reward, terminated, truncated, info = play(env, "4")
    assert math.isnan(reward)
    assert (terminated, truncated, info["stop"]) == (False, True, "env_error")
    assert (env.end.reward, env.end.parts, env.end.correct) == (None, None, None)
    assert env.end.problem == info["problem"] != ""


def test_no_reward_is_no_fault_but_no_zero_either():
    class Unsure(Desk):
        def reward(self, task, trajectory):
            return None

    env = Unsure()
    result = play(env, call("note", word="x", reward=1.0), "4")
    assert env.end.stop is Stop.ANSWER
    assert env.end.reward is None
    assert math.isnan(result[1])


def test_a_truncated_episode_is_scored_for_what_there_is():
    env = Desk()
    play(env, *["4 " + call("note", word="x")] * 4)
    assert (env.end.stop, env.end.reward) == (Stop.MAX_TURNS, 1.0)


def test_faults_of_author_code_end_the_episode_with_the_reason():
    class Faulty(Desk):
        def reply(self, turn):
            return {"no": "text"}

    class Lost(Desk):
        def start(self, task):
            raise ToolError("no disk")

    env = Faulty()
    assert play(env, "4")[4]["stop"] == "env_error"
    assert "reply returned dict" in env.end.problem
    assert play(Desk(), call("broken"))[4]["problem"] == "the notebook is lost"
    env = Lost()
    with pytest.raises(EnvironmentFault, match="no disk"):
        env.reset(options={"task": TASK})
    assert env.end.stop is Stop.ENV_ERROR
    env.close()


# The driver's side


def test_the_driver_can_end_an_episode_and_gives_its_tokens_to_the_reward():
    env = Desk()
    branch = Branch((Span("prompt", (1, 2)), Span("sampled", (3,), (-0.5,))))

    async def main():
        await env.areset(seed=5, options={"task": TASK})
        await env.astep("4 " + call("note", word="x"))
        return await env.aend(Stop.CONTEXT, branches=[branch]), await env.aend(Stop.ANSWER)

    end, again = asyncio.run(main())
    assert (end.stop, end.reward) == (Stop.CONTEXT, 1.0)
    assert again is end
    assert env.trajectory.num_tokens == 3
    assert (env.trajectory.seed, env.trajectory.stop) == (5, Stop.CONTEXT)


def test_an_episode_that_is_cancelled_keeps_its_last_turn():
    class Slow(Desk):
        @tool
        async def sleep(self) -> str:
            """Sleep."""
            await asyncio.sleep(60)
            return ""

    async def main():
        env = Slow()
        await env.areset(options={"task": TASK})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(env.astep("4 " + call("sleep")), 0.01)
        return env, await env.aend(Stop.TIMEOUT)

    env, end = asyncio.run(main())
    assert [turn.text for turn in env.turns] == ["4"]
    assert (end.stop, end.reward) == (Stop.TIMEOUT, 1.0)


def test_steps_before_the_first_reset_and_after_the_end_are_refused():
    env = Desk()
    with pytest.raises(UsageError, match="has not begun"):
        env.step("4")
    play(env, "4")
    with pytest.raises(UsageError, match="is over"):
        env.step("4")
    env.reset(options={"task": TASK})
    assert (env.end, env.turns) == (None, ())
    with pytest.raises(UsageError, match="int is no action"):
        env.step(4)
    env.close()


def test_step_and_reset_inside_a_running_loop_are_refused_at_once():
    async def main():
        with pytest.raises(UsageError, match=r"await env\.areset"):
            Desk().reset()
        with pytest.raises(UsageError, match=r"await env\.astep"):
            Desk().step("4")

    asyncio.run(main())


def test_async_tools_of_an_instance_always_see_the_same_loop():
    class Looped(Desk):
        @tool
        async def which(self) -> str:
            """Name the loop."""
            return str(id(asyncio.get_running_loop()))

    env = Looped()
    env.reset(options={"task": TASK})
    seen = [env.step(call("which"))[0][0]["content"] for _ in range(3)]
    env.reset(options={"task": TASK})
    seen.append(env.step(call("which"))[0][0]["content"])
    assert len(set(seen)) == 1
    env.close()


def test_interleaved_episodes_share_neither_state_nor_seeds():
    def alone(seed):
        env = Desk()
        env.reset(seed=seed, options={"task": TASK})
        return [env.step(call("draw") + call("note", word=str(seed)))[0] for _ in range(2)]

    async def together():
        envs = [Desk(), Desk()]
        for seed, env in enumerate(envs):
            await env.areset(seed=seed, options={"task": TASK})
        steps = [[], []]
        for _ in range(2):
            for seed in (1, 0):
                action = call("draw") + call("note", word=str(seed))
                steps[seed].append((await envs[seed].astep(action))[0])
        return steps

    assert asyncio.run(together()) == [alone(0), alone(1)]


# Classes


def fine(self) -> str:
    """Fine."""
    return ""


@pytest.mark.parametrize("name", ["reward", "step", "render", "np_random", "observation_space"])
def test_a_tool_that_would_hide_an_attribute_is_refused_when_the_class_is_made(name):
    with pytest.raises(UsageError, match=f"Bad: a tool can't be called {name}"):
        type("Bad", (ToolEnv,), {name: tool(name="other")(fine)})
    with pytest.raises(UsageError, match=f"Bad: a tool can't be called {name}"):
        type("Bad", (ToolEnv,), {"fine": tool(name=name)(fine)})


def test_state_that_would_hide_an_episodes_record_is_refused():
    class Bad(Desk):
        def start(self, task):
            self.turns = 0

    with pytest.raises(EnvironmentFault, match="turns"):
        Bad().reset(options={"task": TASK})


# The package


def test_importing_agentrl_loads_nothing_heavy():
    code = (
        "import sys, agentrl; dir(agentrl); agentrl.Task; agentrl.Trajectory; agentrl.AgentRLError;"
        "heavy = {'torch', 'transformers', 'vllm', 'gymnasium', 'pydantic'};"
        "sys.exit(str(sorted(heavy & set(sys.modules)) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_public_names_are_few_and_are_what_they_should_be():
    assert len(agentrl.__all__) <= 30
    assert dir(agentrl) == sorted(agentrl.__all__)
    assert agentrl.ToolEnv is ToolEnv
    assert agentrl.__version__ == "0.1.0"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        agentrl.nothing  # noqa: B018


def test_no_submodule_is_called_like_a_public_name():
    assert {m.name for m in iter_modules(agentrl.__path__)}.isdisjoint(agentrl.__all__)


@pytest.mark.slow
def test_no_submodule_takes_the_place_of_a_public_name():
    for module in iter_modules(agentrl.__path__):
        if module.name != "__main__":
            import_module(f"agentrl.{module.name}")
    for name in agentrl.__all__:
        assert name == "__version__" or callable(getattr(agentrl, name))
