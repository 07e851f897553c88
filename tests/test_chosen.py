import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.advantage import advantages
from agentrl.chosen import choose, samples, staleness
from agentrl.group import Group
from agentrl.selection.question import Question
from agentrl.task import Task
from agentrl.trajectory import Branch, Span, Stop, Trajectory

SETTINGS = {"stats": "subset", "loss": "grpo", "seed": 0}
PODS = Question("max_variance", "auto", 4)


def trajectory(reward, *, branches=1, sampled=3, stop=Stop.ANSWER):
    one = Branch().plus(Span("prompt", (1, 2)), Span("sampled", (5,) * sampled, (-1.0,) * sampled))
    return Trajectory(Task("q"), 0, 0, (), (), stop, (one,) * branches, reward)


def groups(*rewards, **options):
    return [
        Group(Task(f"task {i}"), tuple(trajectory(r, **options) for r in row))
        for i, row in enumerate(rewards)
    ]


def test_kept_rows_have_advantages_of_their_own_group():
    chosen = choose(groups([0, 0, 0, 0, 1, 1], [5, 5, 5, 9, 9, 9]), PODS, **SETTINGS)
    kept = [(t.reward, round(m.advantage, 3)) for t, m in chosen.kept]
    assert (
        sorted(kept) == [(0, -0.866)] * 2 + [(1, 0.866)] * 2 + [(5, -0.866)] * 2 + [(9, 0.866)] * 2
    )


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=3, max_size=9), min_size=1))
def test_advantages_of_a_group_sum_to_nothing_and_flat_groups_keep_nothing(rewards):
    played = groups(*rewards)
    chosen = choose(played, PODS, **SETTINGS)
    start = 0
    for group in played:
        marks = chosen.marks[start : start + len(group.trajectories)]
        start += len(group.trajectories)
        values = [m.advantage for m in marks if m.kept]
        assert math.isclose(sum(values), 0, abs_tol=1e-9)
        assert bool(values) == (len(set(group.rewards)) > 1)


def test_what_cannot_be_compared_is_not_kept_and_moves_no_mean():
    rows = [trajectory(0.0), trajectory(1.0), trajectory(1.0), trajectory(0.0)]
    broken = [trajectory(None), trajectory(-100.0, stop=Stop.ENV_ERROR)]
    with_broken = choose([Group(Task("q"), (*rows, *broken))], PODS, **SETTINGS)
    without = choose([Group(Task("q"), tuple(rows))], PODS, **SETTINGS)
    assert [m.advantage for m in with_broken.marks[:4]] == [m.advantage for m in without.marks]
    assert not any(m.kept for m in with_broken.marks[4:])


def test_a_trajectory_of_many_branches_weighs_as_much_as_one_of_a_single_branch():
    rows = (trajectory(0.0, branches=10), trajectory(1.0, branches=1))
    chosen = choose([Group(Task("q"), rows)], PODS, **SETTINGS)
    found = samples(chosen)
    low = [s for s in found if s.advantage < 0]
    high = [s for s in found if s.advantage > 0]
    assert (len(low), len(high)) == (10, 1)
    assert math.isclose(sum(s.weight for s in low), sum(s.weight for s in high))


def test_a_branch_in_which_nothing_was_sampled_takes_no_weight():
    silent = Branch().plus(Span("prompt", (1, 2)))
    spoken = trajectory(1.0).branches[0]
    both = Trajectory(Task("q"), 0, 0, (), (), Stop.CONTEXT, (spoken, silent), 1.0)
    chosen = choose([Group(Task("q"), (both, trajectory(0.0)))], PODS, **SETTINGS)
    assert [s.weight for s in samples(chosen)] == [1.0, 1.0]


def test_without_scaling_advantages_are_differences_of_rewards():
    chosen = choose(groups([0, 0, 4, 4]), PODS, **{**SETTINGS, "loss": "dr_grpo"})
    assert [m.advantage for m in chosen.marks] == [-2, -2, 2, 2]


def test_a_budget_counts_every_branch_of_a_trajectory_and_keeps_them_together():
    rows = (trajectory(0.0), trajectory(1.0, branches=4), trajectory(1.0, branches=2))
    played = [Group(Task("q"), rows)]
    chosen = choose(played, replace(PODS, token_budget=16), **SETTINGS)
    assert [m.kept for m in chosen.marks] == [True, False, True]
    assert sum(len(s.input_ids) for s in samples(chosen)) == 15


def test_attention_makes_one_long_branch_dearer_than_many_short_ones():
    rows = (trajectory(0.0), trajectory(1.0, sampled=17), trajectory(1.0, branches=4))
    played = [Group(Task("q"), rows)]
    linear = choose(played, replace(PODS, token_budget=25), **SETTINGS)
    assert [m.kept for m in linear.marks] == [True, True, False]
    square = choose(played, replace(PODS, token_budget=55), **SETTINGS, attention_length=5)
    assert [m.kept for m in square.marks] == [True, False, True]
    assert square.selection.report.cost_kept == 10 + 4 * 10


@pytest.mark.parametrize(
    ("policy", "kept", "values"),
    [("score", {0.0, 1.0}, 2), ("mask", {1.0, 0.5}, 2), ("zero", {1.0, 9.0}, 2)],
)
def test_a_cut_off_trajectory_counts_as_the_named_policy_says(policy, kept, values):
    cut = trajectory({"score": 0.0, "mask": 0.0, "zero": 9.0}[policy], stop=Stop.MAX_TURNS)
    rows = (cut, trajectory(0.5), trajectory(1.0))
    chosen = choose([Group(Task("q"), rows)], replace(PODS, m=2), **SETTINGS, truncated=policy)
    assert {t.reward for t, _ in chosen.kept} == kept
    assert sum(m.advantage for _, m in chosen.kept) == pytest.approx(0)
    assert len(chosen.kept) == values


def test_an_unbiased_choice_has_the_advantages_of_the_whole_group_on_average():
    rewards = [0, 0, 0, 0, 0, 1, 0.5, 1, 0, 0]
    lengths = [3, 9, 5, 7, 30, 4, 20, 11, 6, 8]
    rows = [trajectory(r, sampled=n) for r, n in zip(rewards, lengths, strict=True)]
    played, question = [Group(Task("q"), tuple(rows))], replace(PODS, unbiased=True)
    total = np.zeros(len(rows))
    for seed in range(4000):
        chosen = choose(played, question, stats="group", loss="grpo", seed=seed)
        each = [(m.advantage or 0.0) * m.weight if m.kept else 0.0 for m in chosen.marks]
        total += np.array(each) / len(chosen.kept)
    full = np.array(advantages(rewards, range(len(rows)), stats="group")) / len(rows)
    assert total / 4000 == pytest.approx(full, abs=0.012)


def test_what_no_micro_batch_holds_is_refused_before_it_moves_a_mean():
    rows = [trajectory(0.0), trajectory(1.0), trajectory(1.0), trajectory(0.0)]
    long = trajectory(50.0, sampled=90)
    many = trajectory(1.0, branches=30)
    played = [Group(Task("q"), (*rows, long, many))]
    chosen = choose(played, PODS, **SETTINGS, most_tokens=60)
    assert chosen.oversize == 1
    assert not chosen.marks[4].kept
    without = choose([Group(Task("q"), (*rows, many))], PODS, **SETTINGS)
    advantages = [m.advantage for m in chosen.marks if m.kept]
    assert sorted(advantages) == sorted(m.advantage for m in without.marks if m.kept)


def aged(reward, *versions):
    """A trajectory whose turns came from these versions of the weights."""
    spans = [Span("sampled", (7, 8), (-1.0, -1.0), version) for version in versions]
    whole = trajectory(reward)
    branch = Branch((Span("prompt", (1, 2)), *spans))
    return replace(whole, branches=(branch,), version=versions[0] if versions else 0)


def test_a_trajectory_is_as_old_as_its_oldest_token_and_unsampled_ones_have_no_age():
    assert staleness(aged(0.0, 4, 6), 6) == 2
    assert staleness(aged(0.0, 6), 6) == 0
    assert staleness(aged(0.0), 6) == 0


def test_what_is_too_old_is_refused_before_it_holds_a_place_or_moves_a_mean():
    fresh = [aged(r, 5) for r in (0.0, 1.0, 1.0, 0.0)]
    old = aged(50.0, 3, 5)
    played = [Group(Task("q"), (*fresh, old))]
    chosen = choose(played, PODS, **SETTINGS, version=5, max_staleness=1)
    assert chosen.stale == 1
    assert chosen.staleness == (0, 0, 0, 0, 2)
    assert not chosen.marks[4].kept
    without = choose([Group(Task("q"), tuple(fresh))], PODS, **SETTINGS)
    assert [m for m in chosen.marks if m.kept] == [m for m in without.marks if m.kept]
    assert choose(played, PODS, **SETTINGS, version=5, max_staleness=2).marks[4].kept
