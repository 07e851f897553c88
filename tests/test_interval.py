import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentrl.interval import average, share

clusters = st.lists(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4), min_size=1, max_size=30
)


@given(clusters)
def test_an_interval_holds_its_mean_and_stays_within_zero_and_one(values):
    found = share(values)
    assert 0 <= found.low <= found.mean <= found.high <= 1


def test_with_one_attempt_a_task_it_is_wilsons_interval():
    found = share([[1.0]] * 8 + [[0.0]] * 2)
    # Wilson, 8 of 10: 0.4902 to 0.9433.
    assert math.isclose(found.low, 0.4902, abs_tol=0.02)
    assert math.isclose(found.high, 0.9433, abs_tol=0.02)


def test_all_right_is_not_certainty():
    found = share([[1.0]] * 20)
    assert found.mean == 1.0
    assert found.low < 0.9


def test_repeating_attempts_at_the_same_tasks_does_not_narrow_the_interval():
    once = share([[1.0]] * 10 + [[0.0]] * 10)
    again = share([[1.0] * 8] * 10 + [[0.0] * 8] * 10)
    assert math.isclose(once.low, again.low, rel_tol=0.05)


def test_nine_intervals_of_ten_hold_the_truth_even_when_attempts_resemble_each_other():
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(300):
        chances = rng.beta(0.5, 0.5, 40)
        found = share([(rng.random(4) < p).astype(float).tolist() for p in chances])
        held += found.low <= 0.5 <= found.high
    assert held >= 270


def test_an_average_is_clustered_too():
    found = average([[1.0, 3.0], [5.0]])
    assert found.mean == 3.0
    assert found.low < 3.0 < found.high
    assert average([[]]) is None
    assert share([]) is None
