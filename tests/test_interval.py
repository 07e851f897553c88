import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.interval import (
    Z,
    average,
    difference,
    differences,
    share,
    shares,
    sign_test,
    t_point,
)

clusters = st.lists(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4), min_size=1, max_size=30
)


@given(clusters)
def test_an_interval_holds_its_mean_and_stays_within_zero_and_one(values):
    found = share(values)
    assert 0 <= found.low <= found.mean <= found.high <= 1


def test_with_one_attempt_a_task_it_is_wilsons_interval_with_students_t():
    found = share([[1.0]] * 80 + [[0.0]] * 20)
    # Wilson, 80 of 100: 0.7112 to 0.8666; t of 99 degrees is 1.2% above z.
    assert 0.700 < found.low < 0.7112
    assert 0.8666 < found.high < 0.874


def test_all_right_is_not_certainty():
    found = share([[1.0]] * 20)
    assert found.mean == 1.0
    assert found.low < 0.9


def test_one_task_says_next_to_nothing():
    found = share([[1.0] * 8])
    assert found.low < 0.1
    assert average([[2.0, 3.0]]).high == math.inf


def test_repeating_attempts_at_the_same_tasks_does_not_narrow_the_interval():
    once = share([[1.0]] * 10 + [[0.0]] * 10)
    again = share([[1.0] * 8] * 10 + [[0.0] * 8] * 10)
    assert math.isclose(once.low, again.low, rel_tol=0.05)


def test_an_average_is_clustered_too():
    found = average([[1.0, 3.0], [5.0]])
    assert found.mean == 3.0
    assert found.low < 3.0 < found.high
    assert average([[]]) is None
    assert share([]) is None


def test_rewards_between_zero_and_one_get_the_interval_of_a_share():
    assert average([[0.5], [0.0], [1.0]]) == share([[0.5], [0.0], [1.0]])


def _trapezium(freedom, until):
    """Student's t distribution function, by the rule of trapeziums."""
    at = np.linspace(0, until, 200_001)
    scale = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * math.pi)
    return 0.5 + scale * np.trapezoid((1 + at**2 / freedom) ** (-(freedom + 1) / 2), at)


@pytest.mark.parametrize("freedom", [1, 2, 3, 5, 10, 11, 19, 60, 199])
def test_students_points_cut_off_a_fortieth(freedom):
    assert math.isclose(_trapezium(freedom, t_point(freedom)), 0.975, abs_tol=2e-6)


def test_far_out_students_t_is_the_normal_distribution():
    assert math.isclose(t_point(10**7), Z, abs_tol=1e-6)
    assert t_point(0) == t_point(1)


def test_a_sign_test_counts_what_is_at_least_as_uneven():
    assert sign_test(0, 0) == 1.0
    assert math.isclose(sign_test(5, 0), 2 / 32)
    assert math.isclose(sign_test(1, 4), 2 * (1 + 5) / 32)
    assert math.isclose(sign_test(3, 3), 1.0)
    assert 0 <= sign_test(50_000, 51_000) < 0.01


def test_tasks_that_all_end_alike_leave_a_difference_open():
    found = difference([0.0] * 20)
    assert found.mean == 0
    assert found.low < -0.05 < 0.05 < found.high
    assert difference([]) is None


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=30))
def test_a_differences_interval_holds_it_and_turns_with_its_sign(values):
    found, turned = difference(values), difference([-v for v in values])
    assert found.low <= found.mean <= found.high
    assert math.isclose(found.low, -turned.high, abs_tol=1e-9)


def cell(rng, tasks, k, mean, sameness, times):
    """Coverage, and width against that of an oracle who knows the variance."""
    chances = rng.beta(mean * sameness, (1 - mean) * sameness, (times, tasks))
    sums = rng.binomial(k, chances).astype(float)
    _, low, high = shares(sums, np.full_like(sums, k))
    between = mean * (1 - mean) / (sameness + 1)
    variance = (between + (mean * (1 - mean) - between) / k) / tasks
    held = float(((low <= mean) & (mean <= high)).mean())
    return held, float((high - low).mean() / (2 * Z * math.sqrt(variance)))


@pytest.mark.parametrize("tasks", [20, 60])
@pytest.mark.parametrize("mean", [0.1, 0.5])
def test_intervals_hold_the_truth_and_are_hardly_wider_than_an_oracles(tasks, mean):
    held, width = cell(np.random.default_rng(5), tasks, 4, mean, 1.0, 2000)
    assert held >= 0.93
    assert width <= 1.3


@pytest.mark.slow
def test_intervals_hold_the_truth_in_every_kind_of_evaluation():
    rng = np.random.default_rng(6)
    sizes, attempts = (20, 35, 50, 100, 200), (1, 2, 4, 8)
    cells = itertools.product(sizes, attempts, (0.1, 0.3, 0.5, 0.7, 0.9), (0.1, 0.3, 1, 3, 10))
    found = {at: cell(rng, *at, 2000) for at in cells}
    worst = min(found, key=lambda at: found[at][0])
    assert found[worst][0] >= 0.93, worst
    assert np.mean([held for held, _ in found.values()]) >= 0.95
    widest = max(found, key=lambda at: found[at][1])
    assert found[widest][1] <= 1.3, widest
    assert np.mean([width for _, width in found.values()]) <= 1.05


@pytest.mark.slow
def test_paired_differences_hold_the_truth():
    rng = np.random.default_rng(7)
    for tasks, k, mean, more in itertools.product(
        (20, 50, 200), (1, 4), (0.1, 0.5, 0.9), (0, 0.08)
    ):
        first = rng.beta(mean, 1 - mean, (2000, tasks))
        second = np.clip(first + more, 0, 1)
        truth = (second - first).mean()
        values = (rng.binomial(k, second) - rng.binomial(k, first)) / k
        _, low, high = differences(values)
        assert ((low <= truth) & (truth <= high)).mean() >= 0.93, (tasks, k, mean, more)


@pytest.mark.slow
def test_the_documents_table_is_what_simulation_gives():
    text = (Path(__file__).parents[1] / "docs" / "evaluation.md").read_text()
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line[:4] in ("| 20", "| 35")]
    assert len(rows) == 3
    for row in (row for row in rows if len(row) == 5 and float(row[1]) < 1):
        tasks, mean, worst, width, widest = map(float, row)
        rng = np.random.default_rng(8)
        kinds = itertools.product((1, 2, 4, 8), (0.1, 0.3, 0.5, 0.7, 0.9), (0.1, 0.3, 1, 3, 10))
        found = [cell(rng, int(tasks), *kind, 2000) for kind in kinds]
        held, wide = [h for h, _ in found], [w for _, w in found]
        assert np.mean(held) == pytest.approx(mean, abs=0.004)
        assert min(held) == pytest.approx(worst, abs=0.01)
        assert np.mean(wide) == pytest.approx(width, abs=0.02)
        assert max(wide) == pytest.approx(widest, abs=0.03)
