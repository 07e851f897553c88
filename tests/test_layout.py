"""A micro-batch holds all its rows whole, and of what is trained exactly what the loss reads."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest
import torch

from agentrl.layout import Rows, lay_out
from agentrl.sample import Sample
from tests.rows import SAMPLES

WEIGHTS = [0.5 + i for i in range(len(SAMPLES))]


def spelled_out(samples: list[Sample], weights: list[float]) -> list[tuple[float, ...]]:
    """(id before, label, behaviour, advantage, weight) of each trained token, row by row."""
    return [
        (s.input_ids[i - 1], s.input_ids[i], s.logprobs[i], s.advantage, w)
        for s, w in zip(samples, weights, strict=True)
        for i, sampled in enumerate(s.loss_mask)
        if sampled
    ]


@pytest.mark.parametrize("packed", [False, True])
def test_each_trained_token_is_there_with_all_that_the_loss_reads(packed: bool) -> None:
    rows = lay_out(SAMPLES, WEIGHTS, packed=packed)
    before = rows.ids.flatten()[rows.at]
    columns = (before, rows.labels, rows.behaviour, rows.advantages, rows.weights)
    want = torch.tensor(spelled_out(SAMPLES, WEIGHTS))
    torch.testing.assert_close(torch.stack([c.float() for c in columns], 1), want)


def test_packed_rows_follow_each_other_and_padded_ones_start_below_each_other() -> None:
    packed, padded = (lay_out(SAMPLES, WEIGHTS, packed=p) for p in (True, False))
    assert packed.ids.tolist() == [[i for s in SAMPLES for i in s.input_ids]]
    assert packed.lengths == tuple(len(s.input_ids) for s in SAMPLES)
    widest = max(packed.lengths)
    assert padded.lengths == ()
    for row, s in zip(padded.ids.tolist(), SAMPLES, strict=True):
        assert row == [*s.input_ids, *[0] * (widest - len(s.input_ids))]


@pytest.mark.parametrize("packed", [False, True])
def test_what_an_engine_says_of_tokens_that_are_not_trained_is_not_read(packed: bool) -> None:
    def said(value: float) -> Rows:
        samples = [
            replace(
                s,
                logprobs=tuple(
                    p if m else value for p, m in zip(s.logprobs, s.loss_mask, strict=True)
                ),
            )
            for s in SAMPLES
        ]
        return lay_out(samples, WEIGHTS, packed=packed)

    first, second = said(math.inf), said(-3.0)
    for field in fields(Rows):
        left, right = getattr(first, field.name), getattr(second, field.name)
        assert left == right if field.name == "lengths" else torch.equal(left, right)


@pytest.mark.parametrize("packed", [False, True])
def test_no_samples_make_one_token_that_is_not_trained(packed: bool) -> None:
    rows = lay_out([], [], packed=packed)
    assert rows.ids.shape == (1, 1)
    assert rows.lengths == ((1,) if packed else ())
    assert len(rows.at) == len(rows.labels) == len(rows.weights) == 0


def test_a_move_to_a_device_keeps_the_lengths() -> None:
    rows = lay_out(SAMPLES, WEIGHTS, packed=True)
    moved = rows.to(torch.device("meta"))
    assert moved.lengths == rows.lengths
    assert moved.ids.device.type == moved.weights.device.type == "meta"


@pytest.mark.parametrize("packed", [False, True])
def test_a_trained_first_token_is_refused(packed: bool) -> None:
    with pytest.raises(ValueError, match="nothing before it"):
        lay_out([SAMPLES[0], Sample((1, 2), (1, 0), (0.0, 0.0), 1.0)], [1.0, 1.0], packed=packed)
