import math

from hypothesis import given
from hypothesis import strategies as st

from agentrl.chosen import choose, samples
from agentrl.group import Group
from agentrl.task import Task
from agentrl.trajectory import Branch, Span, Stop, Trajectory

SETTINGS = {
    "m": 4, "rule": "max_variance", "within": "auto", "stats": "subset", "loss": "grpo", "seed": 0,
}  # fmt: skip


def trajectory(reward, *, branches=1, sampled=3, stop=Stop.ANSWER):
    one = Branch().plus(Span("prompt", (1, 2)), Span("sampled", (5,) * sampled, (-1.0,) * sampled))
    return Trajectory(Task("q"), 0, 0, (), (), stop, (one,) * branches, reward)


def groups(*rewards, **options):
    return [
        Group(Task(f"task {i}"), tuple(trajectory(r, **options) for r in row))
        for i, row in enumerate(rewards)
    ]


def test_kept_rows_have_advantages_of_their_own_group():
    chosen = choose(groups([0, 0, 0, 0, 1, 1], [5, 5, 5, 9, 9, 9]), **SETTINGS)
    kept = [(t.reward, round(m.advantage, 3)) for t, m in chosen.kept]
    assert (
        sorted(kept) == [(0, -0.866)] * 2 + [(1, 0.866)] * 2 + [(5, -0.866)] * 2 + [(9, 0.866)] * 2
    )


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=3, max_size=9), min_size=1))
def test_advantages_of_a_group_sum_to_nothing_and_flat_groups_keep_nothing(rewards):
    played = groups(*rewards)
    chosen = choose(played, **SETTINGS)
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
    with_broken = choose([Group(Task("q"), (*rows, *broken))], **SETTINGS)
    without = choose([Group(Task("q"), tuple(rows))], **SETTINGS)
    assert [m.advantage for m in with_broken.marks[:4]] == [m.advantage for m in without.marks]
    assert not any(m.kept for m in with_broken.marks[4:])


def test_a_trajectory_of_many_branches_weighs_as_much_as_one_of_a_single_branch():
    rows = (trajectory(0.0, branches=10), trajectory(1.0, branches=1))
    chosen = choose([Group(Task("q"), rows)], **SETTINGS)
    found = samples(chosen)
    low = [s for s in found if s.advantage < 0]
    high = [s for s in found if s.advantage > 0]
    assert (len(low), len(high)) == (10, 1)
    assert math.isclose(sum(s.weight for s in low), sum(s.weight for s in high))


def test_a_branch_in_which_nothing_was_sampled_takes_no_weight():
    silent = Branch().plus(Span("prompt", (1, 2)))
    spoken = trajectory(1.0).branches[0]
    both = Trajectory(Task("q"), 0, 0, (), (), Stop.CONTEXT, (spoken, silent), 1.0)
    chosen = choose([Group(Task("q"), (both, trajectory(0.0)))], **SETTINGS)
    assert [s.weight for s in samples(chosen)] == [1.0, 1.0]


def test_without_scaling_advantages_are_differences_of_rewards():
    chosen = choose(groups([0, 0, 4, 4]), **{**SETTINGS, "loss": "dr_grpo"})
    assert [m.advantage for m in chosen.marks] == [-2, -2, 2, 2]
