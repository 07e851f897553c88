"""What each token counts, and the clipped objective against closed forms."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from agentrl.loss import LOSSES, TokenSums, clipped_loss

COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=20)


def loss_of(logprobs: Any, behaviour: Any, advantages: Any, **options: Any) -> TokenSums:
    weights = options.pop("weights", [1.0] * len(behaviour))
    clip = {"clip_low": 0.2, "clip_high": 0.2} | options
    columns = (torch.tensor(c, dtype=torch.float32) for c in (behaviour, advantages, weights))
    return clipped_loss(logprobs, *columns, **clip)


def at(*values: float) -> Tensor:
    return torch.tensor(values, requires_grad=True)


@given(COUNTS)
def test_in_grpo_every_trajectory_counts_the_same_however_long(counts: list[int]) -> None:
    weights = LOSSES["grpo"](counts, [1.0] * len(counts), len(counts))
    totals = [n * w for n, w in zip(counts, weights, strict=True) if n]
    assert totals == pytest.approx([1 / len(counts)] * len(totals))


def test_in_grpo_the_branches_of_a_trajectory_count_as_much_as_a_whole_one() -> None:
    weights = LOSSES["grpo"]([10, 4, 6], [1.0, 0.5, 0.5], 2)
    whole, *branches = (n * w for n, w in zip([10, 4, 6], weights, strict=True))
    assert whole == pytest.approx(sum(branches)) == pytest.approx(0.5)


@given(COUNTS)
def test_in_dapo_every_token_of_the_step_counts_the_same(counts: list[int]) -> None:
    weights = LOSSES["dapo"](counts, [1.0] * len(counts), len(counts))
    assert len(set(weights)) == 1
    assert weights[0] * max(sum(counts), 1) == pytest.approx(1.0)


@given(COUNTS)
def test_in_dr_grpo_a_longer_trajectory_counts_for_more_in_proportion(counts: list[int]) -> None:
    weights = LOSSES["dr_grpo"](counts, [1.0] * len(counts), len(counts))
    assert len(set(weights)) == 1
    assert weights[0] * max(*counts, 1) * len(counts) == pytest.approx(1.0)


@pytest.mark.parametrize("name", LOSSES)
def test_selection_weights_scale_the_tokens_of_their_trajectory(name: str) -> None:
    plain = LOSSES[name]([3, 5], [1.0, 1.0], 2)
    assert LOSSES[name]([3, 5], [1.0, 4.0], 2) == pytest.approx([plain[0], 4 * plain[1]])


@pytest.mark.parametrize("name", LOSSES)
def test_samples_without_a_trained_token_divide_by_nothing(name: str) -> None:
    assert all(math.isfinite(w) for w in LOSSES[name]([0, 0], [1.0, 1.0], 2))


def test_on_policy_the_gradient_is_the_policy_gradient() -> None:
    logprobs = at(-1.0, -2.0, -0.5)
    sums = loss_of(logprobs, [-1.0, -2.0, -0.5], [1.0, -2.0, 0.5], weights=[0.1, 0.2, 0.3])
    sums.loss.backward()
    torch.testing.assert_close(logprobs.grad, torch.tensor([-0.1, 0.4, -0.15]))


@pytest.mark.parametrize(
    ("ratio", "advantage", "flows"),
    [
        (1.1, 1.0, True),
        (1.3, 1.0, False),
        (1.3, -1.0, True),
        (0.9, -1.0, True),
        (0.7, -1.0, False),
        (0.7, 1.0, True),
    ],
)
def test_the_clip_stops_a_token_only_in_the_direction_that_its_advantage_asks_for(
    ratio: float, advantage: float, flows: bool
) -> None:
    logprobs = at(math.log(ratio))
    sums = loss_of(logprobs, [0.0], [advantage])
    sums.loss.backward()
    assert bool(logprobs.grad) is flows
    assert sums.clipped.item() == float(not flows)


def test_the_clip_may_be_wider_above_than_below() -> None:
    logprobs = at(math.log(1.25))
    assert loss_of(logprobs, [0.0], [1.0], clip_high=0.28).clipped == 0
    assert loss_of(logprobs, [0.0], [1.0], clip_high=0.2).clipped == 1


def test_against_a_far_behaviour_policy_tokens_are_clipped() -> None:
    behaviour = [-3.0, -4.0, -5.0]
    assert loss_of(at(-1.0, -1.0, -1.0), behaviour, [1.0, 1.0, 1.0]).clipped == 3


@pytest.mark.parametrize("behaviour", [-1e4, 1e4, -1e30])
@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.0])
def test_a_log_ratio_out_of_all_bounds_gives_finite_numbers(
    behaviour: float, advantage: float
) -> None:
    logprobs = at(-1.0, -2.0)
    sums = loss_of(logprobs, [behaviour, -2.0], [advantage, 1.0])
    sums.loss.backward()
    assert all(value.isfinite() for value in sums)
    assert logprobs.grad is not None
    assert logprobs.grad.isfinite().all()
    assert logprobs.grad[1] == -1.0


def test_a_token_without_behaviour_log_prob_counts_with_ratio_one() -> None:
    logprobs = at(-1.0, -2.0)
    sums = loss_of(logprobs, [math.nan, -2.0], [3.0, 1.0])
    sums.loss.backward()
    assert sums.loss.item() == -4.0
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [-3.0, -1.0]
    assert sums.known == 1
    assert sums.gap == 0


def test_k3_estimates_the_divergence_of_the_learner_from_the_engine() -> None:
    engine, learner = torch.tensor([0.2, 0.5, 0.3]), torch.tensor([0.4, 0.4, 0.2])
    draws = torch.multinomial(engine, 100_000, True, generator=torch.Generator().manual_seed(0))
    sums = clipped_loss(
        learner.log()[draws],
        engine.log()[draws],
        torch.ones(len(draws)),
        torch.ones(len(draws)),
        clip_low=0.2,
        clip_high=0.2,
    )
    exact = (engine * (engine / learner).log()).sum().item()
    assert sums.k3.item() / len(draws) == pytest.approx(exact, rel=0.02)


def test_zero_advantages_give_zero_gradient() -> None:
    logprobs = at(-1.0, -3.0)
    loss_of(logprobs, [-2.0, -1.0], [0.0, 0.0]).loss.backward()
    assert logprobs.grad is not None
    assert not logprobs.grad.any()


def test_no_tokens_give_zero_loss_and_an_unbroken_graph() -> None:
    logprobs = at()
    sums = loss_of(logprobs, [], [])
    sums.loss.backward()
    assert [value.item() for value in sums] == [0.0] * 7
