"""Old episodes get a new reward: from a function, or from the environment as it is now."""

from __future__ import annotations

import json

import pytest

from agentrl import journal
from agentrl.cli import main
from agentrl.replay import trajectory_of
from agentrl.task import Task
from agentrl.trajectory import Stop
from tests.chat_server import said, serving
from tests.test_comparison import measured

COUNTER = '''
import os

from agentrl import ListTasks, Task, ToolEnv, tool
from pathlib import Path


class Counter(ToolEnv):
    """Count up to a number; the reward is in the state, not in the words."""

    max_turns = 4

    def task_source(self, split):
        return ListTasks([Task(f"to {n}", n) for n in range(3)])

    def start(self, task):
        self.at = 0

    @tool
    def up(self) -> str:
        """Count one more."""
        self.at += int((Path(__file__).parent / "by.txt").read_text())
        return str(self.at)

    def reward(self, task, trajectory):
        return float(self.at == task.answer)
'''

REWARDS = """
def ones(task, trajectory):
    return 1.0

def calls(task, trajectory):
    turns = trajectory.turns
    return {"correct": float(sum(len(t.outcomes) for t in turns) == task.answer), "extra": 0.5}

async def nothing(task, trajectory):
    return None

def breaks(task, trajectory):
    raise ValueError("no")

def huge(task, trajectory):
    return 10**400

def one_argument(task):
    return 1.0
"""


@pytest.fixture
def counted(tmp_path):
    """An evaluation of a policy that counts once, whatever is asked, and writes one bad call."""
    (tmp_path / "counter.py").write_text(COUNTER)
    (tmp_path / "by.txt").write_text("1")
    (tmp_path / "rewards.py").write_text(REWARDS)

    def answer(body):
        if body["messages"][-1]["role"] == "tool":
            return said("done")
        return said("", [("up", "{}"), ("up", "oops")])

    out = tmp_path / "e"
    with serving(answer) as server:
        words = ["--env", f"{tmp_path / 'counter.py'}:Counter", "--base-url", server.url]
        assert main(["eval", *words, "--model", "m", "--out", str(out)]) == 0
    return out


def rescored(capsys, *args):
    capsys.readouterr()
    code = main(["rescore", *map(str, args), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_function_gives_new_rewards_beside_the_old_lines(capsys, tmp_path, counted):
    before = (counted / "episodes.jsonl").read_bytes()
    code, found = rescored(capsys, counted, "--reward", f"{tmp_path / 'rewards.py'}:ones")
    assert code == 0
    assert (found["episodes"], found["changed"], found["to_right"]) == (3, 2, 2)
    assert found["accuracy"]["mean"] == 1.0
    assert found["path"] == str(counted / "rescored" / "001")
    assert (counted / "episodes.jsonl").read_bytes() == before
    rows = list(journal.rows(counted / "rescored/001/episodes.jsonl"))
    assert sorted(row["old_reward"] for row in rows) == [0, 0, 1]
    again = rescored(capsys, counted, "--reward", f"{tmp_path / 'rewards.py'}:ones")[1]
    assert again["path"].endswith("002")


def test_a_function_sees_calls_and_what_came_of_them(capsys, tmp_path, counted):
    found = rescored(capsys, counted, "--reward", f"{tmp_path / 'rewards.py'}:calls")[1]
    rows = list(journal.rows(counted / "rescored/001/episodes.jsonl"))
    assert (found["to_right"], found["to_wrong"]) == (1, 1)
    assert sorted(row["reward"] for row in rows) == [0.5, 0.5, 1.5]


def test_the_environments_own_reward_is_found_by_playing_the_turns_again(capsys, tmp_path, counted):
    code, found = rescored(capsys, counted)
    assert (code, found["changed"], found["diverged"]) == (0, 0, 0)
    (tmp_path / "by.txt").write_text("2")
    found = rescored(capsys, counted)[1]
    assert (found["changed"], found["to_right"], found["to_wrong"]) == (2, 1, 1)
    assert found["diverged"] == 3


def test_a_reward_that_gives_nothing_or_breaks_leaves_no_score(capsys, tmp_path, counted):
    for name, stop in (("nothing", "answer"), ("breaks", "env_error"), ("huge", "env_error")):
        found = rescored(capsys, counted, "--reward", f"{tmp_path / 'rewards.py'}:{name}")[1]
        assert (found["broken"], found["accuracy"]) == (3, None)
        assert found["problem"]
        rows = list(journal.rows(counted / "rescored" / found["path"][-3:] / "episodes.jsonl"))
        assert {row["stop"] for row in rows} == {stop}
        assert all(row["reward"] is None and row["problem"] for row in rows)


@pytest.mark.parametrize("name", ["one_argument", "none_such", ""])
def test_a_reward_that_cannot_be_called_is_refused_before_anything_is_written(
    capsys, tmp_path, counted, name
):
    code, found = rescored(capsys, counted, "--reward", f"{tmp_path / 'rewards.py'}:{name}")
    assert (code, "--reward" in found["error"]) == (2, True)
    assert not (counted / "rescored").exists()


def test_old_and_new_rewards_are_compared_only_by_force(capsys, tmp_path, counted):
    rescored(capsys, counted, "--reward", f"{tmp_path / 'rewards.py'}:ones")
    both = [str(counted), str(counted / "rescored/001")]
    assert main(["compare", *both]) == 2
    capsys.readouterr()
    assert main(["compare", *both, "--force", "--json"]) == 0
    (pair,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert pair["better"] == 2
    assert any(why.startswith("reward environment") for why in pair["unlike"])


def test_a_line_is_the_trajectory_it_was(counted):
    row = next(r for r in journal.rows(counted / "episodes.jsonl"))
    old = trajectory_of(row, Task("x"))
    assert [len(t.outcomes) for t in old.turns] == [2, 0]
    assert [o.status for o in old.turns[0].outcomes] == ["ok", "malformed"]
    assert [bool(c.problem) for c in old.turns[0].calls] == [False, True]
    assert (old.answer, old.stop) == ("done", Stop.ANSWER)
    assert [m["role"] for m in old.opening] == ["user"]


def test_a_turn_that_was_cut_is_cut_again():
    said_ = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    row = {"messages": said_, "turns": 1, "member": 0, "reward": 0.0, "stop": "max_tokens"}
    assert trajectory_of(row, Task("a")).turns[0].assistant.finish_reason == "length"


def test_an_assistants_words_in_an_opening_are_no_turn():
    talk = [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")]
    messages = [{"role": role, "content": text} for role, text in talk]
    row = {"messages": messages, "turns": 1, "member": 0, "reward": 0.0, "stop": "answer"}
    old = trajectory_of(row, Task("a"))
    assert (len(old.opening), old.answer) == (3, "d")


def test_lines_of_tasks_that_share_an_id_are_scored_by_their_own(capsys, tmp_path, counted):
    lines = (counted / "episodes.jsonl").read_text()
    ids = {row["task_id"] for row in journal.rows(counted / "episodes.jsonl")}
    for task in ids:
        lines = lines.replace(f'"task_id": "{task}"', '"task_id": "same"')
    (counted / "episodes.jsonl").write_text(lines)
    code, found = rescored(capsys, counted)
    assert (code, found["changed"], found["unknown"]) == (0, 0, 0)
    assert found["accuracy"]["mean"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("change", [{"turns": 99}, {"stop": "sleepy"}, {"messages": [{}]}])
def test_a_line_that_is_no_episode_is_refused_and_nothing_stays(capsys, counted, change):
    rows = list(journal.rows(counted / "episodes.jsonl"))
    text = "".join(json.dumps(row | (change if i else {})) + "\n" for i, row in enumerate(rows))
    (counted / "episodes.jsonl").write_text(text)
    code, found = rescored(capsys, counted)
    assert (code, "a line is not an episode" in found["error"]) == (2, True)
    assert list((counted / "rescored").iterdir()) == []


@pytest.mark.slow
def test_a_hundred_thousand_lines_are_scored_in_a_line_of_time_and_little_memory(tmp_path, counted):
    rows = list(journal.rows(counted / "episodes.jsonl"))
    padded = [row | {"messages": [*row["messages"][:1], *row["messages"][1:]]} for row in rows]
    seconds = {}
    for lines in (25_000, 100_000):
        folder = tmp_path / f"n{lines}"
        folder.mkdir()
        (folder / "eval.json").write_bytes((counted / "eval.json").read_bytes())
        with (folder / "episodes.jsonl").open("w") as file:
            for i in range(lines):
                row = padded[i % 3] | {"member": i // 3, "filler": "so many words " * 200}
                file.write(json.dumps(row) + "\n")
        reward = f"{tmp_path / 'rewards.py'}:calls"
        code, peak, seconds[lines] = measured("rescore", folder, "--reward", reward)
        assert code == 0
        assert peak < 1024
    assert seconds[100_000] < 8 * seconds[25_000]
