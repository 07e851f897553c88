"""Mixtures of environments: shares by weight, the right environment for each task, options."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl import registry
from agentrl.cli.entry import main
from agentrl.config import TrainConfig
from agentrl.errors import UsageError
from agentrl.mixture import FROM, Part, firsts, interleaved, mixture_of
from agentrl.sampler import draw
from agentrl.state import Standing
from agentrl.task import ListTasks, Task
from agentrl.training import train
from tests import bad_envs

LABELS = "tests.bad_envs:Good"
BOXES = "tests.bad_envs:NoReference"
BOTH = f"tool_math*2,{LABELS}"


def names(tasks):
    return Counter((task.meta or {}).get(FROM) for task in tasks)


def test_one_environment_is_a_mixture_of_one_and_its_tasks_stay_as_they_are():
    mixture = mixture_of("tool_math", {"difficulty": "easy"})
    source = mixture.source("train")
    assert source[3] == registry.make("tool_math", difficulty="easy").task_source("train")[3]
    assert FROM not in (source[3].meta or {})
    assert mixture.make(source[3]).difficulty == "easy"
    assert not mixture.mixed


def test_each_task_is_played_in_the_environment_that_it_is_from():
    mixture = mixture_of(BOTH, {})
    source = mixture.source("train")
    kinds = [type(mixture.make(source[i])).__name__ for i in range(6)]
    assert kinds == ["ToolMath", "ToolMath", "Good"] * 2
    assert [t.meta[FROM] for t in firsts(mixture, source)] == ["tool_math", LABELS]


def test_a_task_of_a_mixture_is_the_same_task_by_content_and_name():
    alone = registry.make("tool_math").task_source("test")
    mixed = mixture_of(BOTH, {}).source("test")
    assert (mixed[0].hash, mixed[0].id, mixed[0].split) == (alone[0].hash, alone[0].id, "test")
    assert mixed[0].meta == {**alone[0].meta, FROM: "tool_math"}


@pytest.mark.parametrize("text", [f"{LABELS}*2, {BOXES}*1", f"{LABELS}*1,{BOXES}*0.5",
                                  f"{LABELS} * 1/2,{BOXES}*1/4"])  # fmt: skip
def test_weights_are_shares_however_they_are_written(text):
    mixture = mixture_of(text, {})
    assert [part.weight for part in mixture.parts] == [2, 1]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 30)), min_size=1, max_size=4))
def test_every_task_of_every_part_comes_and_shares_are_exact(shapes):
    parts = [Part(f"part {i}", weight, bad_envs.Good) for i, (weight, _) in enumerate(shapes)]
    sources = [
        ListTasks([Task(f"{i}.{k}") for k in range(size)]) for i, (_, size) in enumerate(shapes)
    ]
    mixed = interleaved(parts, sources)
    tasks = [mixed[i] for i in range(len(mixed))]
    assert {t.prompt for t in tasks} == {t.prompt for s in sources for t in s}
    total = sum(weight for weight, _ in shapes)
    for part, (weight, _) in zip(parts, shapes, strict=True):
        assert names(tasks)[part.name] * total == weight * len(mixed)
    assert mixed[-1].prompt == tasks[-1].prompt
    with pytest.raises(IndexError):
        mixed[len(mixed)]


def test_draws_are_the_same_again_and_go_on_where_they_were():
    source = mixture_of(BOTH, {}).source("train")
    whole = draw(source, Standing(), seed=3, count=40).tasks
    first = Standing()
    halves = [t for _ in range(2) for t in draw(source, first, seed=3, count=20).tasks]
    assert [t.hash for t in whole] == [t.hash for t in halves]
    assert 15 < names(whole)["tool_math"] < 38


def test_an_option_goes_to_every_part_that_has_it():
    mixture = mixture_of("tool_math,code_math", {"difficulty": "easy", "kind": "pairs"})
    envs = [part.make() for part in mixture.parts]
    assert (envs[0].difficulty, envs[1].kind) == ("easy", "pairs")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (BOTH, {"dificulty": "easy"}, "Did you mean difficulty"),
        ("tool_math", {"dificulty": "easy"}, "Did you mean difficulty"),
        ("tool_math*2,tool_mth", {}, "Did you mean tool_math"),
        ("tool_math,tool_math*2", {}, "there twice"),
        ("tool_math,", {}, "name is missing"),
        ("", {}, "name is missing"),
        ("tool_math*0,code_math", {}, "no weight"),
        ("tool_math*-1", {}, "no weight"),
        ("tool_math*x", {}, "no weight"),
        ("tool_math*1/0", {}, "no weight"),
        ("tool_math*nan", {}, "no weight"),
        ("tool_math*1000000,code_math", {}, "Round them"),
        (f"tool_math,{LABELS.replace('Good', 'HasNoTestTasks')}", {}, "no tasks of the split test"),
    ],
)
def test_what_cannot_be_mixed_is_refused(text, options, message):
    with pytest.raises(UsageError, match=message):
        mixture_of(text, options).source("test")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A short run on a mixture."""
    out = tmp_path_factory.mktemp("runs")
    words = ["train", "--env", BOTH, "--n", "2", "--m", "2", "--steps", "1", "--name", "r",
             "--tasks-per-step", "6", "--heldout.tasks", "6", "--eval-every", "1",
             "--rollout.max_turn_tokens", "16", "--rollout.max_tokens", "32",
             "--env.difficulty", "easy", "--progress", "off", "--out", str(out)]  # fmt: skip
    assert main(words) == 0
    return out / "r"


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_measures_each_part_and_all_together(trained):
    (row,) = rows(trained / "metrics.jsonl")
    assert {"heldout", "heldout/tool_math", f"heldout/{LABELS}"} <= set(row)
    before = json.loads((trained / "run.json").read_text())["heldout"]["before"]
    assert before["tasks"] == sum(part["tasks"] for part in before["by"]["env"].values()) == 6


def test_a_run_records_where_each_episode_is_from_and_how_hard_it_was(trained):
    played = rows(trained / "groups" / "000001.jsonl")
    assert {row["env"] for row in played} <= {"tool_math", LABELS}
    assert all(row["difficulty"] == "easy" for row in played if row["env"] == "tool_math")


def test_an_evaluation_tells_of_each_part(trained, capsys):
    words = ["eval", "--env", BOTH, "--tasks", "6", "--rollout.max_turn_tokens", "8",
             "--rollout.max_tokens", "8"]  # fmt: skip
    assert main([*words, "--json"]) == 0
    by = json.loads(capsys.readouterr().out)["by"]
    assert {name: part["tasks"] for name, part in by["env"].items()} == {"tool_math": 4, LABELS: 2}
    assert set(by["env"]["tool_math"]) == {"mean", "low", "high", "tasks"}
    assert main(words) == 0
    assert "env tool_math" in capsys.readouterr().out


@pytest.mark.slow
def test_the_embedded_policy_learns_both_parts_of_a_mixture(tmp_path):
    config = TrainConfig.model_validate(
        {
            "env": {"name": "tool_math*1,code_math*1"},
            "train": {"steps": 30},
            "heldout": {"tasks": 120},
            "run": {"out": str(tmp_path), "name": "run", "progress": "off"},
        }
    )
    train(config)
    facts = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    before, after = (facts["heldout"][when]["by"]["env"] for when in ("before", "after"))
    for part in ("tool_math", "code_math"):
        assert after[part]["low"] > before[part]["high"], part
        assert after[part]["mean"] > before[part]["mean"] + 0.3, part
