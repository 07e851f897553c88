"""What an engine's log-probs say about the weights it computes with."""

from __future__ import annotations

import pytest

from agentrl.engines.fingerprint import TOLERANCES, Fingerprint, check
from agentrl.errors import WeightSyncError

OLD, NEW = [-3.0] * 63, [-3.5] * 63


def test_an_engine_that_says_what_the_learner_says_passes():
    check(Fingerprint(2, NEW, NEW), Fingerprint(1, OLD, OLD), "float32")
    check(Fingerprint(1, NEW, NEW), None, "float32")


def test_an_engine_with_old_weights_is_found_and_both_are_named():
    with pytest.raises(WeightSyncError, match=r"version 2: .* differ by 0\.5 in the mean"):
        check(Fingerprint(2, NEW, OLD), Fingerprint(1, OLD, OLD), "float32")


def test_one_log_prob_far_off_is_enough():
    with pytest.raises(WeightSyncError, match=r"0\.05 at most; .* 0\.01 are allowed in float32"):
        check(Fingerprint(2, NEW, [*NEW[1:], -3.55]), None, "float32")


def test_an_engine_that_stands_still_while_the_learner_moves_is_found_within_the_noise():
    moved = [x + 0.05 for x in OLD]
    with pytest.raises(WeightSyncError, match=r"moved by up to 0\.05 since version 1"):
        check(Fingerprint(2, moved, OLD), Fingerprint(1, OLD, OLD), "bfloat16")


def test_an_engine_may_stand_still_beside_a_learner_that_hardly_moved():
    moved = [x + 1e-6 for x in OLD]
    check(Fingerprint(2, moved, OLD), Fingerprint(1, OLD, OLD), "float32")


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_log_probs_that_are_no_numbers_never_pass(dtype):
    with pytest.raises(WeightSyncError):
        check(Fingerprint(1, NEW, [float("nan"), *NEW[1:]]), None, dtype)
