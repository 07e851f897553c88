"""Figures by what tasks say of themselves: environment, difficulty, tags."""

from __future__ import annotations

import pytest

from agentrl.group import Group
from agentrl.measure import labels, summarize
from agentrl.record import Mark, episode_row
from agentrl.task import Task
from agentrl.trajectory import Stop, Trajectory


def group(correct, **meta):
    task = Task(f"{correct} {meta}", meta=meta)
    rows = [
        Trajectory(task, i, i, (), (), Stop.ANSWER, reward=float(c), correct=bool(c))
        for i, c in enumerate(correct)
    ]
    return Group(task, tuple(rows))


def test_figures_are_told_by_difficulty_and_by_every_tag():
    groups = [
        group([1, 1], difficulty="easy", tags=["sums"]),
        group([0, 1], difficulty="hard", tags=["sums", "money"]),
        group([0, 0], difficulty="hard", tags=("money",)),
    ]
    by = summarize(groups, 2).by
    assert set(by) == {"difficulty", "tags"}
    assert {w: (f["mean"], f["tasks"]) for w, f in by["difficulty"].items()} == {
        "easy": (1.0, 1),
        "hard": (0.25, 2),
    }
    assert {w: f["mean"] for w, f in by["tags"].items()} == {"money": 0.25, "sums": 0.75}
    assert all(f["low"] <= f["mean"] <= f["high"] for kind in by.values() for f in kind.values())


def test_tasks_that_say_nothing_are_in_no_figure():
    assert summarize([group([1]), group([0])], 1).by == {}
    assert summarize([group([1], tags=None, difficulty=None)], 1).by == {}


def test_what_broke_everywhere_has_no_mean():
    task = Task("a", meta={"difficulty": 1})
    broken = Trajectory(task, 0, 0, (), (), Stop.ENV_ERROR)
    (found,) = summarize([Group(task, (broken,))], 1).by["difficulty"].values()
    assert found == {"mean": None, "low": None, "high": None, "tasks": 1}


@pytest.mark.parametrize(
    ("kind", "said", "words"),
    [("tags", "one", ["one"]), ("tags", 3, ["3"]), ("tags", [], []), ("difficulty", 2, ["2"]),
     ("difficulty", [1, 2], ["[1, 2]"])],
)  # fmt: skip
def test_labels_are_words_whatever_an_author_wrote(kind, said, words):
    assert labels(Task("a", meta={kind: said}), kind) == words


def test_an_episode_is_recorded_with_its_difficulty_and_tags():
    (played,) = group([1], difficulty="easy", tags=["sums"], other=3).trajectories
    row = episode_row(played, Mark(), tokens=False)
    assert (row["difficulty"], row["tags"]) == ("easy", ["sums"])
    assert not {"env", "other"} & set(row)
