"""A uniform number picks the token whose share of the distribution it falls in."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentrl.engines.draw import draw, uniforms
from agentrl.policy import Request, Sampling

LOGITS = st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=30)


def request(seed: int, max_tokens: int) -> Request:
    return Request((1,), max_tokens, (), Sampling(), seed, (0, 0))


@given(LOGITS, st.floats(0.1, 3.0))
def test_even_numbers_draw_each_token_as_often_as_its_probability(logits, temperature) -> None:
    count = 2000
    uniform = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    rows = torch.tensor([logits]).expand(count, -1)
    ids, logprobs = draw(rows, torch.full((count,), temperature), uniform)
    expected = (torch.tensor(logits) / temperature).log_softmax(-1)
    shares = torch.bincount(ids, minlength=len(logits)) / count
    assert (shares - expected.exp()).abs().max() <= 1.5 / count
    assert torch.allclose(logprobs, expected[ids], atol=1e-5)


@given(st.floats(0, 1, exclude_max=True), st.integers(0, 9))
def test_an_impossible_token_is_never_drawn(uniform, possible) -> None:
    logits = torch.full((1, 10), -torch.inf)
    logits[0, possible] = 0.0
    ids, logprobs = draw(logits, torch.ones(1), torch.tensor([uniform], dtype=torch.float64))
    assert ids.tolist() == [possible]
    assert logprobs.tolist() == [0.0]


def test_rows_have_their_own_temperature_and_zero_means_the_likeliest() -> None:
    logits = torch.tensor([[0.0, 1.0, 0.5]] * 3)
    uniform = torch.tensor([0.0, 0.0, 0.999], dtype=torch.float64)
    ids, logprobs = draw(logits, torch.tensor([0.0, 1.0, 0.01]), uniform)
    assert ids.tolist() == [1, 0, 1]
    assert logprobs[0].item() == pytest.approx(logits[0].log_softmax(-1)[1].item())
    assert logprobs[2].item() == pytest.approx(0.0, abs=1e-6)


def test_a_small_probability_survives_a_large_vocabulary() -> None:
    logits = torch.zeros(1, 150_000)
    ids, _ = draw(logits, torch.ones(1), torch.tensor([1 - 1e-9], dtype=torch.float64))
    assert ids.item() == 149_999


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(1, 40)), min_size=1, max_size=5))
def test_numbers_depend_on_the_seed_alone_not_on_the_company(asked) -> None:
    together = uniforms([request(seed, count) for seed, count in asked])
    for row, (seed, count) in zip(together, asked, strict=True):
        alone = uniforms([request(seed, count)])[0]
        assert row.tolist() == alone.tolist()
        assert np.array_equal(alone, np.random.default_rng(seed).random(count))
