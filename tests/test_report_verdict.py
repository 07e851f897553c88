"""The verdict: paired by task where tasks can be paired, and honest about what is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentrl.report.facts import facts_of
from agentrl.report.verdict import against, verdict
from tests.reported import facts_with, line, scored, write_evaluation, write_run

ZEROS, ONES = [0.0] * 40, [1.0] * 40


@pytest.mark.parametrize(
    ("before", "after", "tone", "said"),
    [
        (ZEROS, ONES, "better", "Held-out accuracy rose: 0.000"),
        (ONES, ZEROS, "worse", "Held-out accuracy fell: 1.000"),
        ([*ZEROS, 1.0], [*ZEROS, 1.0], "open", "41 tasks show no sure change"),
        (ZEROS, [*ZEROS[1:], 1.0], "open", "40 tasks show no sure change"),
    ],
)
def test_a_difference_counts_where_its_interval_leaves_zero_out(
    tmp_path, before, after, tone, said
):
    found = verdict(facts_of(str(write_run(tmp_path / "r", heldout={0: before, 3: after}))))
    assert found.tone == tone
    assert found.text.startswith(said)
    assert "95% interval" in found.text
    assert "paired over" in found.text


def test_tasks_that_could_not_be_scored_twice_are_told(tmp_path):
    run = write_run(tmp_path / "r", heldout={0: [*ZEROS, 1.0], 3: ONES})
    found = verdict(facts_of(str(run)))
    assert "paired over 40 tasks" in found.text
    assert found.notes == ("1 task could not be scored both times.",)


@pytest.mark.parametrize("status", ["stopped", "failed", "running"])
def test_a_run_that_did_not_end_says_how_far_it_came(tmp_path, status):
    run = write_run(tmp_path / "r", heldout={0: ZEROS, 2: ONES}, status=status)
    found = verdict(facts_of(str(run)))
    assert found.tone == "better"
    assert found.notes[0].endswith("after 3 of 40 steps. What follows is of those.")
    assert found.notes[1] == "Held-out tasks were last attempted at step 2."


@pytest.mark.parametrize(
    ("heldout", "steps", "said"),
    [
        ({0: ONES}, 3, "Held-out accuracy was measured once: 1.000"),
        ({2: ONES}, 3, "Held-out accuracy was measured once: 1.000"),
        ({}, 3, "Held-out accuracy was not measured. The mean reward"),
        ({}, 0, "Nothing was measured: there is no whole step."),
    ],
)
def test_what_cannot_be_compared_is_not(tmp_path, heldout, steps, said):
    found = verdict(facts_of(str(write_run(tmp_path / "r", heldout=heldout, steps=steps))))
    assert found.tone == "open"
    assert found.text.startswith(said)


def test_without_episodes_the_rows_give_means_without_an_interval():
    found = verdict(facts_with([{"heldout": 0.25}, {"heldout": None}, {"heldout": 0.5}]))
    assert found.tone == "open"
    assert found.text == "Held-out accuracy was 0.250 first and 0.500 last, after 3 steps."
    assert "no interval" in found.notes[-1]


@pytest.mark.parametrize(
    ("before", "after", "tone", "said"),
    [
        (1.5, 0.5, "better", "Held-out loss fell from 1.500 to 0.500 nats a token"),
        (0.5, 1.5, "worse", "Held-out loss rose"),
        (None, None, "open", "No trajectory was held out"),
    ],
)
def test_learning_from_trajectories_is_judged_by_loss(before, after, tone, said):
    run = {"status": "done", "loss": {"before": before, "after": after}}
    found = verdict(replace(facts_with([{}]), kind="sft", run=run))
    assert found.tone == tone
    assert found.text.startswith(said)


def test_an_evaluation_says_how_much_of_it_there_is(tmp_path):
    rows = [line("a", 1.0), line("b", None, stop="env_error")]
    found = verdict(facts_of(str(write_evaluation(tmp_path / "e", rows, tasks=9))))
    assert found.text.startswith("Accuracy 1.000")
    assert found.notes == (
        "It is not finished.",
        "2 of 9 tasks have episodes so far.",
        "1 episode broke and could not be scored.",
    )
    empty = verdict(facts_of(str(write_evaluation(tmp_path / "f", []))))
    assert empty.text == "No episode is recorded yet."


def ended(worth, **run):
    return replace(facts_with([{}]), run={"env": "e", **run}, heldout=(scored(worth, 3),))


def test_of_two_runs_the_second_is_compared_with_the_first():
    low, high = ({f"t{i}": value for i in range(40)} for value in (0.0, 1.0))
    better = against(ended(low), ended(high), ("one", "two"))
    assert (better.tone, better.text.partition(":")[0]) == ("better", "two ended better than one")
    worse = against(ended(high), ended(low), ("one", "two"))
    assert worse.tone == "worse"
    same = against(ended(low), ended(low), ("one", "two"))
    assert same.text.startswith("40 tasks cannot tell two from one")
    assert same.notes == ()


def test_what_makes_two_runs_unlike_is_named():
    tasks = {f"t{i}": 1.0 for i in range(9)}
    found = against(ended(tasks), ended(tasks, env="f", model="big"), ("one", "two"))
    assert found.notes == ("They differ in more than the policy: env e → f and model null → big.",)
    fewer = against(ended(tasks), ended({"t0": 1.0}), ("one", "two"))
    assert fewer.notes == ("8 tasks of one of them only, left out.",)
    none = against(ended(tasks), ended({"x": 1.0}), ("one", "two"))
    assert none.text == "two and one have no held-out task in common."
    assert against(ended(tasks), facts_with([{}]), ("one", "two")) is None
