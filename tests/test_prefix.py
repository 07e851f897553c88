"""Rows with a common prompt: computed once, and nothing changes but the tokens forwarded."""

from __future__ import annotations

import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.errors import UsageError
from agentrl.layout import lay_out
from agentrl.loss import clipped_loss
from agentrl.prefix import prompt_tokens, prompts_of, score_shared, sharable, share, sharing
from agentrl.recompute import recomputing
from agentrl.sample import Sample
from tests.models import VOCABULARY, llama


def _samples(prompts, rows, seed):
    """Rows that belong to a prompt each, with tokens that are not trained among the others."""
    rng = random.Random(seed)
    texts = [[rng.randrange(VOCABULARY) for _ in range(n)] for n in prompts]
    made = []
    for which, length in rows:
        said = [rng.randrange(VOCABULARY) for _ in range(length)]
        mask = [1, *(int(rng.random() < 0.5) for _ in said[1:])]
        made.append(
            Sample(
                input_ids=(*texts[which], *said),
                loss_mask=(*[0] * prompts[which], *mask),
                logprobs=(*[math.nan] * prompts[which], *[-3.0 if m else math.nan for m in mask]),
                advantage=rng.uniform(-1, 1),
            )
        )
    return made


def _gradients(model, samples, weights):
    """Row by row; then all rows in one micro-batch with each prompt once."""
    every = range(len(samples))
    apart = _backward(model, samples, weights, [[i] for i in every])
    return apart, _backward(model, samples, weights, [every])


def _backward(model, samples, weights, batches):
    """Log-probs, and gradients of the loss."""
    model.zero_grad()
    found = []
    for batch in batches:
        chosen = [samples[i] for i in batch]
        rows = lay_out(chosen, [weights[i] for i in batch], packed=True)
        scored = score_shared(model, share(rows, [prompt_tokens(s) for s in chosen]))
        sums = clipped_loss(
            scored.logprobs,
            rows.behaviour,
            rows.advantages,
            rows.weights,
            clip_low=0.2,
            clip_high=0.2,
        )
        sums.loss.backward()
        found.append(scored.logprobs.detach())
    return torch.cat(found), [p.grad.clone() for p in model.parameters()]


def _assert_same(apart, together):
    assert torch.allclose(apart[0], together[0], atol=2e-6, rtol=1e-5)
    for one, other in zip(apart[1], together[1], strict=True):
        assert (one - other).norm() <= 1e-5 * one.norm()


@settings(max_examples=15, deadline=None)
@given(
    prompts=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 30)), min_size=1, max_size=7),
    seed=st.integers(0, 1000),
)
def test_a_shared_prompt_changes_neither_log_probs_nor_gradients(prompts, rows, seed):
    rows = [(which % len(prompts), length) for which, length in rows]
    samples = _samples(prompts, rows, seed)
    weights = [0.1 + i for i in range(len(samples))]
    _assert_same(*_gradients(llama(), samples, weights))


def test_a_row_longer_than_one_portion_of_queries_is_exact(monkeypatch):
    monkeypatch.setattr("agentrl.prefix.QUERIES", 7)
    samples = _samples([20], [(0, 30), (0, 25), (0, 3)], 1)
    _assert_same(*_gradients(llama(tied=True), samples, [1.0, 2.0, 3.0]))


def test_one_by_one_is_what_the_model_itself_says():
    (sample,) = _samples([9], [(0, 12)], 3)
    model, row = llama(), torch.tensor([sample.input_ids])
    shared = share(lay_out([sample], [1.0], packed=True), [9])
    ours = score_shared(model, shared).logprobs
    own = model(input_ids=row).logits[0].log_softmax(-1)
    trained = [i for i, m in enumerate(sample.loss_mask) if m]
    assert ours.tolist() == pytest.approx(
        [own[i - 1, sample.input_ids[i]].item() for i in trained], abs=1e-5
    )


def test_each_prompt_is_forwarded_once():
    samples = _samples([10, 4], [(0, 5), (1, 6), (0, 7), (0, 8), (1, 9)], 0)
    rows = lay_out(samples, [1.0] * 5, packed=True)
    shared = share(rows, [prompt_tokens(s) for s in samples])
    assert shared.rows.ids.shape == (1, 10 + 4 + 5 + 6 + 7 + 8 + 9)
    assert shared.rows.labels is rows.labels


def test_rows_without_a_common_prompt_stay_as_they_are():
    samples = _samples([10, 4, 6], [(0, 5), (1, 6), (2, 7)], 0)
    rows = lay_out(samples, [1.0] * 3, packed=True)
    shared = share(rows, [prompt_tokens(s) for s in samples])
    assert shared.rows.ids.tolist() == rows.ids.tolist()
    assert shared.rows.at.tolist() == rows.at.tolist()
    assert all(s.prompt.start == s.prompt.stop for s in shared.stretches)


def test_a_prompt_that_begins_like_a_longer_one_is_another_prompt():
    long, short = _samples([10], [(0, 5)], 0)[0], _samples([4], [(0, 5)], 0)[0]
    assert long.input_ids[:4] == short.input_ids[:4]
    rows = lay_out([long, short], [1.0] * 2, packed=True)
    shared = share(rows, [prompt_tokens(s) for s in (long, short)])
    assert shared.rows.ids.shape == rows.ids.shape


def test_recomputed_activations_give_the_same_gradients():
    samples = _samples([12], [(0, 5), (0, 9), (0, 1)], 4)
    model = llama()
    apart, _ = _gradients(model, samples, [1.0] * 3)
    with recomputing(model), sharing(model):
        _, together = _gradients(model, samples, [1.0] * 3)
    _assert_same(apart, together)


def test_the_model_attends_as_before_afterwards():
    model = llama()
    before = model.config._attn_implementation
    with pytest.raises(KeyError), sharing(model):
        raise KeyError
    assert model.config._attn_implementation == before


def test_attention_that_is_not_plain_is_refused():
    samples = _samples([4], [(0, 3), (0, 3)], 0)
    shared = share(lay_out(samples, [1.0] * 2, packed=True), [4, 4])
    model = llama()
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    with pytest.raises(UsageError, match="dropout"):
        score_shared(model.train(), shared)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_plain_model_can_share(dtype):
    assert sharable(llama().to(dtype)) == ""


def test_a_model_whose_positions_begin_anew_in_each_forward_cannot_share():
    model = llama()
    decoder = model.get_decoder()
    rotary = decoder.rotary_emb.forward
    decoder.rotary_emb.forward = lambda x, position_ids: rotary(
        x, torch.arange(x.shape[1])[None] % 12
    )
    assert "nats off" in sharable(model)


def test_a_model_whose_layers_keep_their_own_attention_cannot_share():
    model = llama()
    for layer in model.model.layers:
        layer.self_attn.config = llama().config
    assert "nats off" in sharable(model)


def test_rows_of_one_prompt_are_told_from_others():
    samples = _samples([10, 4], [(0, 5), (1, 6), (0, 7)], 0)
    assert prompts_of(samples) == [(0, 10), (1, 4), (0, 10)]
