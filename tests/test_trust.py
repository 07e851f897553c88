"""How far a token may be from the policy that sampled it: the cap on ratios, rows left out."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from agentrl.loss import RATIO_FLOOR, TokenSums, Trust, clipped_loss
from agentrl.sample import Sample
from agentrl.update import Learner
from tests.models import llama

NAN = math.nan
LOGPROBS = st.floats(-30, 0, width=32)
TOKENS = st.lists(
    st.tuples(LOGPROBS, LOGPROBS | st.just(NAN), st.floats(-3, 3, width=32), st.floats(0, 1)),
    min_size=1,
    max_size=12,
)


def sums_of(
    logprobs: Any, behaviour: Any, advantages: Any, owner: Any = None, **options: Any
) -> tuple[TokenSums, Tensor]:
    """The sums, and the gradient by each log-prob."""
    at = torch.tensor(logprobs, dtype=torch.float32, requires_grad=True)
    weights = options.pop("weights", [1.0] * len(at))
    columns = (torch.tensor(c, dtype=torch.float32) for c in (behaviour, advantages, weights))
    found = clipped_loss(
        at,
        *columns,
        owner=torch.tensor(owner if owner is not None else [0] * len(at)),
        **{"clip_low": 0.2, "clip_high": 0.2} | options,
    )
    found.loss.backward()
    assert at.grad is not None
    return found, at.grad


def as_before(logprobs: Tensor, behaviour: Tensor, advantages: Tensor, weights: Tensor) -> Tensor:
    """The clipped objective as the paper has it, and nothing more."""
    behaviour = torch.where(behaviour.isnan(), logprobs.detach(), behaviour)
    ratio = (logprobs - behaviour).clamp(-20.0, 20.0).exp()
    gain = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    return -(weights * gain).sum()


@given(TOKENS)
def test_without_cap_and_limit_it_is_the_clipped_objective_to_the_bit(rows: Any) -> None:
    logprobs, behaviour, advantages, weights = zip(*rows, strict=True)
    found, gradient = sums_of(logprobs, behaviour, advantages, weights=weights)
    at = torch.tensor(logprobs, requires_grad=True)
    columns = [torch.tensor(c, dtype=torch.float32) for c in (behaviour, advantages, weights)]
    plain = as_before(at, *columns)
    plain.backward()
    assert torch.equal(found.loss, plain)
    assert at.grad is not None
    assert torch.equal(gradient, at.grad)


@given(TOKENS)
def test_a_cap_and_a_limit_that_nothing_reaches_change_no_bit(rows: Any) -> None:
    logprobs, behaviour, advantages, weights = zip(*rows, strict=True)
    near = [
        p + 0.1 * math.tanh(b) if not math.isnan(b) else b
        for p, b in zip(logprobs, behaviour, strict=True)
    ]
    plain, gradient = sums_of(logprobs, near, advantages, weights=weights)
    bounded, same = sums_of(
        logprobs, near, advantages, weights=weights, tis_cap=2.0, mismatch_limit=0.5
    )
    assert torch.equal(plain.loss, bounded.loss)
    assert torch.equal(gradient, same)
    assert (bounded.capped, bounded.masked) == (0, 0)


@pytest.mark.parametrize(
    ("ratio", "advantage", "weighs"),
    [
        (1.0, 1.0, 1.0),
        (1.1, 1.0, 1.1),
        (1.3, 1.0, 0.0),
        (5.0, 1.0, 0.0),
        (5.0, -1.0, 2.0),
        (1.9, -1.0, 1.9),
        (0.9, -1.0, 0.9),
        (0.5, -1.0, 0.0),
        (0.5, 1.0, 0.5),
    ],
)
def test_what_an_advantage_asks_for_is_clipped_and_what_it_fights_is_capped(
    ratio: float, advantage: float, weighs: float
) -> None:
    found, gradient = sums_of([math.log(ratio)], [0.0], [advantage], tis_cap=2.0)
    assert gradient.item() == pytest.approx(-weighs * advantage)
    assert found.capped == float(ratio > 2.0)
    assert found.clipped == float(weighs == 0.0)


@given(LOGPROBS, st.floats(-1.5, 1.5), st.sampled_from([-1.0, 0.5, 2.0]))
def test_gradients_are_those_of_finite_differences_with_the_cap_held(
    logprob: float, drift: float, advantage: float
) -> None:
    cap, step = 2.0, 1e-6
    ratio = math.exp(drift)
    held = min(1.0, cap / ratio)
    if min(abs(ratio - edge) for edge in (0.8, 1.2)) < 1e-3:
        return
    _, gradient = sums_of([logprob], [logprob - drift], [advantage], tis_cap=cap)

    def value(at: float) -> float:
        r = math.exp(drift + at)
        return -held * min(r * advantage, min(max(r, 0.8), 1.2) * advantage)

    slope = (value(step) - value(-step)) / (2 * step)
    assert gradient.item() == pytest.approx(slope, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("behaviour", [-1e4, 1e4, -1e30, NAN])
@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.0])
def test_log_ratios_out_of_all_bounds_and_none_at_all_give_finite_numbers(
    behaviour: float, advantage: float
) -> None:
    found, gradient = sums_of(
        [-1.0, -2.0],
        [behaviour, -2.0],
        [advantage, 1.0],
        owner=[0, 1],
        tis_cap=2.0,
        mismatch_limit=0.5,
    )
    assert all(value.isfinite() for value in found)
    assert gradient.isfinite().all()
    assert gradient[1] == -1.0
    assert found.masked == float(not math.isnan(behaviour))
    if not math.isnan(behaviour):
        assert gradient[0] == 0.0


def test_a_row_far_from_its_policy_counts_for_nothing_and_the_others_as_before() -> None:
    near, far = [-1.0, -1.1], [-1.0, -3.0]
    found, gradient = sums_of(
        near + far, [-1.1, -1.0, -2.0, -1.0], [-1.0] * 4, owner=[3, 3, 4, 4], mismatch_limit=0.5
    )
    _, alone = sums_of(near, [-1.1, -1.0], [-1.0] * 2)
    assert gradient.tolist() == [*alone.tolist(), 0.0, 0.0]
    assert found.masked == 1


def test_rows_are_judged_by_their_mean_so_that_length_alone_masks_nothing() -> None:
    size = 1000
    logprobs, behaviour = [-1.0] * size, [-1.0 - 2e-3] * size
    found, gradient = sums_of(logprobs, behaviour, [1.0] * size, tis_cap=2.0, mismatch_limit=0.1)
    assert found.masked == 0
    assert gradient.abs().max() < 1.01


def test_one_token_that_the_learner_would_never_say_masks_its_row() -> None:
    drift = math.log(RATIO_FLOOR)
    rows = [-1.0] * 99
    for more, masked in ((0.1, 0), (-0.1, 1)):
        found, _ = sums_of(
            [*rows, drift + more - 1.0], [-1.0] * 100, [1.0] * 100, mismatch_limit=5.0
        )
        assert found.masked == masked


def test_tokens_without_a_known_log_prob_do_not_dilute_the_mean() -> None:
    found, _ = sums_of([-1.0] * 4, [-2.0, NAN, NAN, NAN], [1.0] * 4, mismatch_limit=0.5)
    assert found.masked == 1
    found, _ = sums_of([-1.0] * 4, [NAN] * 4, [1.0] * 4, mismatch_limit=0.5)
    assert found.masked == 0


def test_masked_tokens_are_neither_clipped_nor_capped() -> None:
    found, _ = sums_of([-1.0, -1.0], [-9.0, -9.0], [1.0, -1.0], tis_cap=2.0, mismatch_limit=0.5)
    assert (found.clipped, found.capped, found.masked) == (0, 0, 1)


def test_without_tokens_nothing_is_masked_and_the_graph_is_whole() -> None:
    found, gradient = sums_of([], [], [], tis_cap=2.0, mismatch_limit=0.5)
    assert [value.item() for value in found] == [0.0] * 7
    assert gradient.shape == (0,)


def sample(seed: int, advantage: float, behaviour: float) -> Sample:
    ids = torch.randint(0, 97, (9,), generator=torch.Generator().manual_seed(seed)).tolist()
    mask = (0, 0, 0, *(1,) * 6)
    return Sample(tuple(ids), mask, tuple(behaviour if m else NAN for m in mask), advantage)


def moved(samples: list[Sample], kept: int, **options: Any) -> tuple[list[Tensor], Any]:
    model = llama()
    trust = Trust(mismatch_limit=options.pop("mismatch_limit", 0.0))
    done = Learner(model, lr=1e-3, trust=trust, **options).step(samples, kept)
    return [p.detach().clone() for p in model.parameters()], done


@pytest.mark.parametrize("cap", [9, 64])
def test_a_masked_row_keeps_its_share_of_the_mean_however_rows_are_cut(cap: int) -> None:
    good = [sample(0, 1.0, NAN), sample(1, -1.0, NAN)]
    foreign = sample(2, 1.0, -30.0)
    with_it, done = moved(
        [*good, foreign], 3, mismatch_limit=0.5, tokens_per_micro_batch=cap, packing=False
    )
    without, _ = moved(good, 3, tokens_per_micro_batch=cap, packing=False)
    assert done.masked == 1
    for one, other in zip(with_it, without, strict=True):
        torch.testing.assert_close(one, other)
