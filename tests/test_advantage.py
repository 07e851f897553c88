import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.advantage import advantages
from agentrl.errors import UsageError
from agentrl.selection import select

REWARDS = st.lists(st.integers(-8, 8).map(lambda i: i / 4), min_size=2, max_size=12)


@given(REWARDS, st.data())
def test_kept_rewards_are_standardised_by_their_own_statistics(rewards, data):
    rows = st.lists(st.integers(0, len(rewards) - 1), min_size=2, unique=True)
    kept = data.draw(rows)
    chosen = [rewards[i] for i in kept]
    mean, deviation = statistics.mean(chosen), statistics.stdev(chosen)
    expected = [(r - mean) / (deviation + 1e-4) for r in chosen]
    assert advantages(rewards, kept) == pytest.approx(expected, abs=1e-12)


@given(REWARDS, st.data())
def test_group_statistics_do_not_depend_on_what_is_kept(rewards, data):
    kept = data.draw(st.lists(st.integers(0, len(rewards) - 1), unique=True))
    whole = advantages(rewards, range(len(rewards)))
    assert advantages(rewards, kept, stats="group") == tuple(whole[i] for i in kept)


@given(REWARDS)
def test_advantages_of_the_kept_sum_to_zero(rewards):
    for scale in (True, False):
        assert sum(advantages(rewards, range(len(rewards)), scale=scale)) == pytest.approx(
            0, abs=1e-9
        )


def test_balanced_binary_rewards_give_opposite_advantages():
    deviation = math.sqrt(1 / 3)
    value = 0.5 / (deviation + 1e-4)
    assert advantages([0, 1, 0, 1, 1], [0, 1, 2, 3]) == pytest.approx([-value, value] * 2)


def test_without_scaling_only_the_mean_goes():
    assert advantages([0.0, 1.0, 2.0, 9.0], [0, 2], scale=False) == (-1.0, 1.0)
    assert advantages([0.0, 1.0, 2.0, 9.0], [0, 2], scale=False, stats="group") == (-3.0, -1.0)


@pytest.mark.parametrize("stats", ["subset", "group"])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize(
    "rewards", [[1.0] * 3, [0.3, 0.1 + 0.2, 0.3], [5.0], [1e9, 1e9 + 1e-7], []]
)
def test_no_contrast_gives_exactly_zero(rewards, scale, stats):
    kept = range(len(rewards))
    assert advantages(rewards, kept, stats=stats, scale=scale) == (0.0,) * len(rewards)


def test_a_single_kept_row_has_advantage_zero_not_its_reward():
    assert advantages([0.0, 7.0, 1.0], [1]) == (0.0,)


def test_rows_without_a_reward_stay_out_of_the_statistics():
    alone = advantages([1.0, 0.0, 1.0], [0, 1], stats="group")
    beside = advantages([1.0, None, 0.0, math.nan, 1.0], [0, 2], stats="group")
    marked = advantages(
        [1.0, 50.0, 0.0, 1.0], [0, 2], stats="group", valid=[True, False, True, True]
    )
    assert alone == beside == marked
    high, low = advantages([1.0, math.nan, 0.0], [0, 2])
    assert high > 0 > low


def test_a_large_offset_changes_no_advantage():
    near = [0.0, 0.25, 1.0, 0.5]
    far = [1e9 + r for r in near]
    for stats in ("subset", "group"):
        assert advantages(far, [0, 2, 3], stats=stats) == advantages(near, [0, 2, 3], stats=stats)


def test_groups_of_different_sizes_are_normalised_one_by_one():
    sizes, rewards = [4, 3, 4], [0, 1, 1, 0, 50, 51, 50, 9, 9, 9, 9]
    groups = [g for g, size in enumerate(sizes) for _ in range(size)]
    report = select(rewards, [1] * 11, m=2, groups=groups).report
    for group in report.groups.values():
        values = advantages(rewards, group.kept)
        assert max((abs(v) for v in values), default=0.0) < 1
    assert report.groups[2].kept == ()


def test_arrays_are_taken_like_lists():
    assert advantages(np.array([0.0, 1.0]), np.array([0, 1])) == advantages([0, 1], [0, 1])


@pytest.mark.parametrize(
    ("rewards", "kept", "options", "message"),
    [
        ([0.0, None], [1], {}, "kept: row 1 has no advantage: its reward cannot be compared"),
        ([0.0, 1.0], [1], {"valid": [True, False]}, "its reward cannot be compared"),
        ([0.0, 1.0], [2], {}, "there are 2 rows"),
        ([0.0, 1.0], [-1], {}, "there are 2 rows"),
        ([0.0, 1.0], [0], {"stats": "groups"}, "stats: 'groups' is not one. Did you mean group"),
        ([0.0, 1.0], [0], {"valid": [True]}, "valid: 1 values for 2 rewards"),
        (["1"], [0], {}, r"rewards\[0\]: '1' is not a number"),
    ],
)
def test_a_mistake_is_named_with_where_it_is(rewards, kept, options, message):
    with pytest.raises(UsageError, match=message):
        advantages(rewards, kept, **options)
