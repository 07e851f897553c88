"""Problems that need Python: solved by their references in the real sandbox, and trained on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agentrl import disk
from agentrl.config import TrainConfig
from agentrl.errors import EnvironmentFault, UsageError
from agentrl.message import AssistantTurn
from agentrl.registry import make, resolve
from agentrl.sandbox import Limits, Result
from agentrl.training import train
from agentrl_environments._code_tasks import KINDS, LEVELS, code_task, python_call
from agentrl_tools.python import PRELOADED, shared, told
from tests.processes import below, living

ALONE = """
import os
from agentrl.registry import make
from tests.processes import below

env = make("code_math")
task = env.task_source("train")[0]
env.reset(options={"task": task})
env.step(task.reference[0])
print(*below(os.getpid()))
"""


@pytest.fixture
def env():
    env = make("code_math")
    yield env
    env.close()


def play(env, task, *turns):
    """The last observations, reward and info; what the environment opened is left open."""
    env.reset(seed=0, options={"task": task})
    for turn in turns:
        observed, reward, *_, info = env.step(turn)
    return observed, reward, info


def results(observed):
    return [message["content"] for message in observed if message["role"] == "tool"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_of_every_kind_earns_one(kind):
    env = make("code_math", kind=kind)
    source = env.task_source("train")
    for task in (source[i] for i in range(8)):
        _, reward, info = play(env, task, *task.reference)
        assert (reward, info["stop"], info["correct"]) == (1.0, "answer", True), task.prompt
    env.close()


def test_only_the_exact_numbers_of_all_parts_earn_a_reward(env):
    rng = np.random.default_rng(0)
    task = code_task(rng, "sequence")
    first, second = task.answer
    right = [f"Answer: {first}", f"It is {second}"]
    assert play(env, task, *right)[1] == 1.0
    wrong = [
        ["", ""],
        [f"Answer: {first}", "Answer:"],
        ["Answer: 1", f"Answer: {second}"],
        [f"Answer: {second}", f"Answer: {first}"],
        [f"Answer: {int(first) * 2}/2", f"Answer: {second}"],
        [f"Answer: {first}.5", f"Answer: {second}"],
        [f"Answer: {first}", python_call("2"), f"Answer: {second} or 3"],
    ]
    for turns in wrong:
        assert play(env, task, *turns)[1] == 0.0, turns


def test_a_turn_that_was_cut_gives_no_answer(env):
    task = code_task(np.random.default_rng(0), "sequence")
    first, second = task.answer
    cut = AssistantTurn(f"so maybe {second}", finish_reason="length")
    _, reward, info = play(env, task, f"Answer: {first}", cut)
    assert (reward, info["stop"], info["correct"]) == (0.0, "max_tokens", False)


def test_the_next_part_is_asked_whatever_was_said_and_then_the_episode_ends(env):
    task = code_task(np.random.default_rng(0), "grid")
    env.reset(options={"task": task})
    (asked,), reward, terminated, *_ = env.step("No idea.")
    assert (asked["role"], reward, terminated) == ("user", 0.0, False)
    assert asked["content"] == task.meta["later"][0]
    assert env.step("None.")[2]


def test_an_episode_that_ends_in_its_first_part_earns_nothing(env):
    task = code_task(np.random.default_rng(0), "grid")
    env.reset(options={"task": task})
    for _ in range(env.max_turns):
        _, reward, terminated, truncated, _ = env.step(python_call("1"))
    assert truncated
    assert not terminated
    assert reward == 0.0


def test_variables_last_through_an_episode_and_no_longer(env):
    task = env.task_source("train")[0]
    env.reset(options={"task": task})
    assert results(env.step(python_call("x = 20"))[0]) == ["(nothing was printed)"]
    assert results(env.step(python_call("print('so'); x + 1"))[0]) == ["so\n21"]
    env.reset(options={"task": task})
    assert "NameError" in results(env.step(python_call("x"))[0])[0]


def test_calls_of_one_turn_run_in_the_order_they_were_written(env):
    env.reset(options={"task": env.task_source("train")[0]})
    turn = "x = 0" + "\n".join(python_call(f"x = 10*{'x' if i else 0} + {i}; x") for i in range(6))
    assert results(env.step(turn)[0]) == ["0", "1", "12", "123", "1234", "12345"]


def test_two_episodes_share_a_sandbox_and_no_variables(env):
    other = make("code_math")
    task = env.task_source("train")[0]
    for one, value in ((env, 1), (other, 2)):
        one.reset(options={"task": task})
        one.step(python_call(f"x = {value}"))
    assert results(env.step(python_call("x"))[0]) == ["1"]
    assert results(other.step(python_call("x"))[0]) == ["2"]
    other.close()


def test_the_level_of_isolation_is_recorded_and_an_error_is_one(env):
    env.reset(options={"task": env.task_source("train")[0]})
    env.step(python_call("1"))
    env.step(python_call("1/0"))
    good, bad = (turn.outcomes[0] for turn in env.turns)
    assert good.metrics == bad.metrics == {"sandbox_level": float(shared(preload=PRELOADED).level)}
    assert (good.status, bad.status) == ("ok", "error")
    assert bad.content.endswith("ZeroDivisionError: division by zero")
    assert "agentrl" not in bad.content


def test_code_finds_neither_the_answer_nor_what_makes_it(env):
    task = env.task_source("train")[0]
    env.reset(options={"task": task})
    for code in (
        "import agentrl_environments",
        "import agentrl",
        f"open({str(Path(__file__))!r})",
        "import socket; socket.socket()",
    ):
        ((said,),) = [results(env.step(python_call(code))[0])]
        assert "Error" in said.splitlines()[-1], code


def test_release_ends_the_session_and_leaves_the_server_alone(env):
    task = env.task_source("train")[0]
    env.reset(options={"task": task})
    server = below(os.getpid())
    env.step(python_call("1"))
    other = make("code_math")
    other.reset(options={"task": task})
    session = below(os.getpid()) - server
    assert session
    other.close()
    assert not living(session)
    assert results(env.step(python_call("2"))[0]) == ["2"]


def test_no_process_outlives_a_program_that_released_nothing():
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": paths},
    )
    ids = [int(one) for one in done.stdout.split()]
    assert len(ids) >= 2
    assert not living(ids)


def test_a_run_trains_on_what_the_sandbox_answered(tmp_path):
    shared(preload=PRELOADED).run("1")
    server = below(os.getpid())
    config = TrainConfig.model_validate(
        {
            "env": {"name": "code_math"},
            "select": {"n": 8, "m": 4},
            "train": {"steps": 1, "tasks_per_step": 2},
            "heldout": {"tasks": 2},
            "run": {"out": str(tmp_path), "name": "run"},
        }
    )
    summary = train(config)
    assert summary.tokens["trained"] > 0
    rows = list(disk.rows(tmp_path / "run" / "groups" / "000001.jsonl"))
    asked = [row for row in rows if row["tool_calls"]]
    assert len(asked) > 4
    assert {row["status"] for row in rows} == {"ok"}
    levels = {row["metrics"]["sandbox_level"] for row in asked if row.get("metrics")}
    assert levels == {float(shared(preload=PRELOADED).level)}
    assert sum(row["correct"] for row in rows) > 0
    # The server stays for the next run of this process; no session does.
    assert not living(below(os.getpid()) - server)


def test_tasks_are_many_large_and_split_by_content():
    train_tasks, test_tasks = (resolve("code_math").tasks(split) for split in ("train", "test"))
    ours = [train_tasks[i] for i in range(200)]
    assert not {task.hash for task in ours} & {test_tasks[i].hash for i in range(200)}
    assert len({task.hash for task in ours}) == 200
    assert {task.meta["kind"] for task in ours} == set(KINDS)
    assert np.median([len(answer) for task in ours for answer in task.answer]) >= 4
    assert train_tasks[7] == resolve("code_math").tasks("train")[7]


def test_a_kind_chooses_the_problems():
    source = make("code_math", kind="coins").task_source("test")
    assert {source[i].meta["kind"] for i in range(10)} == {"coins"}
    with pytest.raises(UsageError, match="Did you mean coins"):
        make("code_math", kind="coin")


def result(status, **more):
    return Result(status, "some text\n", 1.0, 2, **more)


ENDINGS = {
    "timeout_cpu": "5 s of processor time",
    "timeout_wall": "ended after 12 s",
    "memory": "1024 MiB of memory",
    "output_limit": "printed more than 8 MiB",
    "killed": "by a signal",
}


@pytest.mark.parametrize(("status", "words"), ENDINGS.items())
def test_what_ended_code_is_told_behind_what_it_printed(status, words):
    said = told(result(status, lost=True), Limits())
    first, second = said.content.split("\n")
    assert first == "some text"
    assert words in second
    assert "variables of earlier code are gone" in second
    assert said.is_error


def test_a_session_that_began_anew_says_so():
    said = told(result("ok", restarted=True))
    assert said.content == "some text\n[variables of earlier code are gone]"
    assert not said.is_error


@pytest.mark.parametrize(
    "broken",
    [
        result("sandbox_failure", problem="the fork server ended"),
        result("timeout_wall", host_overload=True),
    ],
)
def test_what_is_nobodys_fault_is_the_environments(broken):
    with pytest.raises(EnvironmentFault, match=r"^sandbox: "):
        told(broken)


@pytest.mark.parametrize("difficulty", LEVELS)
def test_a_level_gives_problems_of_its_kinds_alone_and_says_so(difficulty):
    source = make("code_math", difficulty=difficulty).task_source("train")
    metas = [source[i].meta for i in range(60)]
    assert {meta["kind"] for meta in metas} == set(LEVELS[difficulty])
    assert {meta["difficulty"] for meta in metas} == {difficulty}
    assert all(meta["tags"] == [meta["kind"]] for meta in metas)


def test_every_kind_has_one_level():
    assert sorted(kind for kinds in LEVELS.values() for kind in kinds) == sorted(KINDS)


def test_a_kind_of_another_level_is_refused():
    with pytest.raises(UsageError, match="kind primes is medium, not hard"):
        make("code_math", kind="primes", difficulty="hard")
