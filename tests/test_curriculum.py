"""A curriculum draws where something is learned, the same way every time."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.cli.entry import main
from agentrl.curriculum import FLOOR, Outcome, chance, counted, level_of, takes
from agentrl.sampler import Taste, draw
from agentrl.state import Standing
from agentrl.task import ListTasks, Task

LEVELS = ("easy", "medium", "hard")


def source(size=300):
    return ListTasks([Task(f"{i}", meta={"difficulty": LEVELS[i % 3]}) for i in range(size)])


def standing(**rates):
    return Standing(levels={level: [100.0 * rate, 100.0] for level, rate in rates.items()})


@given(st.floats(0, 1), st.integers(0, 1000))
def test_a_chance_is_highest_at_half_and_never_below_the_floor(rate, scored):
    found = chance("x", {"x": [rate * scored, scored]})
    assert FLOOR <= found <= 1.0
    assert chance("x", {"x": [scored / 2, scored]}) == 1.0
    assert chance("y", {"x": [rate * scored, scored]}) == 1.0


def test_levels_where_half_succeed_are_drawn_most():
    drawn = draw(source(), standing(easy=1.0, medium=0.5, hard=0.0), seed=1, count=60,
                 taste=Taste(curriculum=True))  # fmt: skip
    met = Counter(level_of(task) for task in drawn.tasks)
    assert met["medium"] > 3 * max(met["easy"], met["hard"])
    assert min(met[level] for level in LEVELS) > 0


def test_without_a_curriculum_the_counts_change_nothing():
    plain = draw(source(), Standing(), seed=1, count=60)
    assert plain == draw(source(), standing(easy=1.0, hard=0.0), seed=1, count=60)


def test_before_anything_is_known_tasks_come_in_the_order_of_every_run():
    assert draw(source(), Standing(), seed=1, count=60) == draw(
        source(), Standing(), seed=1, count=60, taste=Taste(curriculum=True)
    )


def test_a_run_that_was_saved_goes_on_with_the_same_tasks(tmp_path):
    whole, first = standing(easy=0.9, hard=0.1), standing(easy=0.9, hard=0.1)
    tasks = [
        draw(source(), whole, seed=2, count=10, taste=Taste(curriculum=True)) for _ in range(4)
    ]
    halves = [
        draw(source(), first, seed=2, count=10, taste=Taste(curriculum=True)) for _ in range(2)
    ]
    first.save(tmp_path)
    loaded = Standing()
    loaded.load(tmp_path)
    halves += [
        draw(source(), loaded, seed=2, count=10, taste=Taste(curriculum=True)) for _ in range(2)
    ]
    assert halves == tasks


def test_a_small_source_is_used_up_before_a_step_goes_short():
    drawn = draw(source(6), standing(easy=1.0, medium=1.0, hard=1.0), seed=1, count=6,
                 taste=Taste(curriculum=True))  # fmt: skip
    assert len({task.hash for task in drawn.tasks}) == 6


def test_what_was_long_ago_counts_less():
    counts = counted({"easy": [10.0, 10.0]}, [Outcome("easy", 0, 4), Outcome("hard", 1, 4)])
    assert counts == {"easy": [9.0, 13.0], "hard": [1.0, 4.0]}


def test_a_level_that_has_become_learnable_is_drawn_again():
    counts = {"hard": [0.0, 1000.0]}
    assert chance("hard", counts) == FLOOR
    for _ in range(30):
        counts = counted(counts, [Outcome("hard", 4, 8)])
    assert chance("hard", counts) > 0.8


def test_whether_a_task_is_taken_depends_on_its_place_in_the_run():
    task, counts = Task("a", meta={"difficulty": "easy"}), {"easy": [100.0, 100.0]}
    taken = [takes(task, counts, seed=0, cursor=i) for i in range(500)]
    assert taken == [takes(task, counts, seed=0, cursor=i) for i in range(500)]
    assert taken != [takes(task, counts, seed=1, cursor=i) for i in range(500)]
    assert 20 < sum(taken) < 90


def test_each_environment_of_a_mixture_has_levels_of_its_own():
    assert level_of(Task("a", meta={"from_env": "shop", "difficulty": 2})) == "shop:2"
    assert level_of(Task("a")) == ""


@pytest.mark.parametrize("env", ["tests.bad_envs:Good", "tool_math"])
def test_tasks_of_one_level_are_refused_before_anything_is_written(env, tmp_path, capsys):
    words = ["train", "--env", env, "--train.curriculum", "--out", str(tmp_path / "runs")]
    more = ["--env.difficulty", "easy"] if env == "tool_math" else []
    assert main([*words, *more]) == 2
    assert "--train.curriculum: its tasks are all of one level" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_run_counts_by_level_and_says_with_which_chance_each_is_taken(tmp_path):
    words = ["train", "--env", "tool_math", "--train.curriculum", "--n", "2", "--m", "2",
             "--steps", "1", "--tasks-per-step", "6", "--heldout.tasks", "0", "--name", "r",
             "--rollout.max_turn_tokens", "8", "--rollout.max_tokens", "8", "--progress", "off",
             "--out", str(tmp_path)]  # fmt: skip
    assert main(words) == 0
    saved = tmp_path / "r" / "checkpoints" / "000001" / "standing"
    (file,) = saved.rglob("standing.json")
    levels = json.loads(file.read_text())["levels"]
    assert set(levels) <= set(LEVELS)
    assert sum(scored for _, scored in levels.values()) == 12
    row = json.loads((tmp_path / "r" / "metrics.jsonl").read_text())
    assert {f"curriculum/{level}" for level in levels} <= set(row)
