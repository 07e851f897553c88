"""The chunked head equals plain logits, in value and in gradient."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.nn import functional
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaForCausalLM,
    PreTrainedModel,
)

from agentrl.errors import UsageError
from agentrl.head import Head, head_of, score, token_logprobs, verify
from tests.models import VOCABULARY, llama

POSITIONS, WIDTH, ENTRIES = 23, 16, 41


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def dense(hidden: Tensor, head: Head, labels: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The same with all logits at once and nothing clever."""
    logits = functional.linear(hidden, head.weight, head.bias) * head.scale
    if head.softcap:
        logits = head.softcap * torch.tanh(logits / head.softcap)
    every = (logits / temperature).log_softmax(-1)
    return every.gather(1, labels[:, None]).squeeze(1), -(every.exp() * every).sum(-1)


def case(**options: Any) -> tuple[Tensor, Head, Tensor]:
    hidden = draw(0, POSITIONS, WIDTH).requires_grad_()
    weight = draw(1, ENTRIES, WIDTH).requires_grad_()
    bias = draw(2, ENTRIES).requires_grad_() if options.pop("bias", False) else None
    labels = torch.arange(POSITIONS) * 7 % ENTRIES
    return hidden, Head(weight, bias, **options), labels


HEADS = {
    "plain": {},
    "bias": {"bias": True},
    "scale": {"scale": 0.25},
    "softcap": {"softcap": 5.0},
    "all": {"bias": True, "scale": 1.5, "softcap": 3.0},
}


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("chunk", [1, 5, POSITIONS, 1000])
@pytest.mark.parametrize("name", HEADS)
def test_values_and_gradients_are_those_of_plain_logits(
    name: str, chunk: int, temperature: float
) -> None:
    upstream = draw(3, POSITIONS)
    results = []
    for ours in (True, False):
        hidden, head, labels = case(**HEADS[name])
        if ours:
            logprobs, entropy = token_logprobs(
                hidden, head, labels, temperature=temperature, chunk=chunk
            )
        else:
            logprobs, entropy = dense(hidden, head, labels, temperature)
        (logprobs * upstream).sum().backward()
        gradients = [t.grad for t in (hidden, head.weight, head.bias) if t is not None]
        results.append([logprobs.detach(), entropy.detach(), *gradients])
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_entropy_carries_no_gradient() -> None:
    hidden, head, labels = case()
    assert not token_logprobs(hidden, head, labels).entropy.requires_grad


def test_a_frozen_head_gets_no_gradient_and_hidden_states_the_right_one() -> None:
    hidden, head, labels = case()
    head.weight.requires_grad_(False)
    token_logprobs(hidden, head, labels, chunk=4).logprobs.sum().backward()
    plain = hidden.detach().requires_grad_()
    dense(plain, head, labels, 1.0)[0].sum().backward()
    assert head.weight.grad is None
    torch.testing.assert_close(hidden.grad, plain.grad, rtol=1e-5, atol=1e-5)


def test_logits_far_from_zero_neither_overflow_nor_lose_digits() -> None:
    hidden, head, labels = case(scale=1000.0)
    logprobs, entropy = token_logprobs(hidden, head, labels, chunk=4)
    exact = dense(hidden.double(), Head(head.weight.double(), scale=1000.0), labels, 1.0)[0]
    assert logprobs.isfinite().all()
    assert entropy.isfinite().all()
    torch.testing.assert_close(logprobs.double(), exact, rtol=1e-5, atol=1e-3)


def test_no_positions_give_zero_gradients_and_an_unbroken_graph() -> None:
    hidden, head, labels = case()
    logprobs = token_logprobs(hidden[:0], head, labels[:0]).logprobs
    logprobs.sum().backward()
    assert head.weight.grad is not None
    assert not head.weight.grad.any()


def test_what_is_kept_for_backward_does_not_grow_with_the_vocabulary() -> None:
    kept: list[int] = []
    hidden, head, labels = case()

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        token_logprobs(hidden, head, labels, chunk=4)
    own = sum(t.numel() for t in (hidden, head.weight, labels))
    assert sum(kept) == own + POSITIONS


@pytest.mark.parametrize("tied", [True, False])
def test_through_a_model_gradients_are_those_of_its_own_logits(tied: bool) -> None:
    ids = torch.arange(24).view(2, 12) * 5 % VOCABULARY
    gradients = []
    for ours in (True, False):
        model = llama(tied=tied)
        if ours:
            at = torch.arange(11)
            logprobs = score(model, ids, at, ids[0, 1:], temperature=0.7).logprobs
        else:
            every = (model(ids).logits[0, :-1] / 0.7).log_softmax(-1)
            logprobs = every.gather(1, ids[0, 1:, None]).squeeze(1)
        logprobs.mean().backward()
        gradients.append({n: p.grad for n, p in model.named_parameters()})
    for name, want in gradients[1].items():
        torch.testing.assert_close(gradients[0][name], want, rtol=1e-5, atol=1e-5)


def test_padding_on_the_right_does_not_change_a_log_prob() -> None:
    model = llama()
    row = torch.arange(9)[None] * 11 % VOCABULARY
    padded = functional.pad(row, (0, 40)).expand(3, -1)
    at, labels = torch.arange(8), row[0, 1:]
    with torch.no_grad():
        alone, beside = (score(model, ids, at, labels).logprobs for ids in (row, padded))
    torch.testing.assert_close(alone, beside, rtol=0, atol=1e-5)


def test_packed_rows_score_as_each_alone() -> None:
    model = llama()
    rows = [torch.arange(n)[None] * 11 % VOCABULARY for n in (9, 2, 30)]
    at = torch.tensor([*range(8), 9, *range(11, 40)])
    with torch.no_grad():
        alone = [score(model, r, torch.arange(r.shape[1] - 1), r[0, 1:]).logprobs for r in rows]
        ids = torch.cat(rows, 1)
        packed = score(model, ids, at, ids[0, at + 1], lengths=(9, 2, 30)).logprobs
    torch.testing.assert_close(packed, torch.cat(alone), rtol=0, atol=1e-5)


class Noisy(LlamaForCausalLM):
    """Whatever is not trained has no number at all as its hidden state."""

    trained = (3, 4, 9, 15)

    def get_decoder(self) -> Any:
        inner = super().get_decoder()

        def decode(**inputs: Any) -> Any:
            output = inner(**inputs)
            noise = torch.full(output.last_hidden_state.shape[1:], torch.nan)
            noise[list(self.trained)] = 0
            output.last_hidden_state = output.last_hidden_state + noise
            return output

        return decode


def test_positions_that_are_not_trained_have_no_influence_at_all() -> None:
    ids = torch.arange(20)[None] * 5 % VOCABULARY
    at = torch.tensor(Noisy.trained)
    found = []
    for kind in (LlamaForCausalLM, Noisy):
        model = kind(llama().config).eval()
        model.load_state_dict(llama().state_dict())
        scores = score(model, ids, at, ids[0, at + 1])
        scores.logprobs.sum().backward()
        found.append(
            [scores.logprobs.detach(), scores.entropy, *[p.grad for p in model.parameters()]]
        )
    assert all(torch.equal(clean, noisy) for clean, noisy in zip(*found, strict=True))


@pytest.mark.parametrize("tied", [True, False])
def test_below_a_frozen_head_what_is_trained_gets_the_gradient_of_plain_logits(tied: bool) -> None:
    """As with LoRA, whose base is frozen."""
    ids = torch.arange(24)[None] * 5 % VOCABULARY
    found = []
    for ours in (True, False):
        model = llama(tied=tied).requires_grad_(False)
        query = model.model.layers[0].self_attn.q_proj.weight.requires_grad_()
        if ours:
            logprobs = score(model, ids, torch.arange(23), ids[0, 1:]).logprobs
        else:
            every = model(ids).logits[0, :-1].log_softmax(-1)
            logprobs = every.gather(1, ids[0, 1:, None]).squeeze(1)
        logprobs.mean().backward()
        assert [p for p in model.parameters() if p.grad is not None] == [query]
        found.append(query.grad)
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)


def peak(
    positions: int, chunk: int, entries: int, dtype: torch.dtype, softcap: float | None
) -> int:
    """Bytes of forward and backward through the head, its inputs not counted."""
    with FakeTensorMode():
        hidden = torch.empty(positions, WIDTH, dtype=dtype).requires_grad_()
        weight = torch.empty(entries, WIDTH, dtype=dtype).requires_grad_()
        labels = torch.zeros(positions, dtype=torch.long)
        tracker = MemTracker()
        head = Head(weight, softcap=softcap)
        with tracker:
            token_logprobs(hidden, head, labels, chunk=chunk).logprobs.sum().backward()
    (found,) = tracker.get_tracker_snapshot("peak").values()
    return int(found["Total"])


@pytest.mark.parametrize("softcap", [None, 5.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_memory_of_the_head_is_that_of_a_chunk_however_many_positions(
    dtype: torch.dtype, softcap: float | None
) -> None:
    entries, chunk = 5000, 32
    of_weight = 2 * 4 * entries * WIDTH  # its gradient, and one product of a chunk
    few, many = (peak(n, chunk, entries, dtype, softcap) for n in (64, 4096))
    assert 4 * entries * chunk <= few <= 12 * entries * chunk + of_weight + 10_000
    assert many - few <= (4096 - 64) * (2 * 4 * WIDTH + 32)
    wider = peak(64, 2 * chunk, entries, dtype, softcap)
    assert wider - few <= 10 * entries * chunk


SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "initializer_range": 0.5,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 1,
}


def gemma() -> PreTrainedModel:
    options = SMALL | {"head_dim": 16, "final_logit_softcapping": 2.0}
    return Gemma2ForCausalLM(Gemma2Config(**options))


def cohere() -> PreTrainedModel:
    return CohereForCausalLM(CohereConfig(**SMALL, logit_scale=0.3))


def granite() -> PreTrainedModel:
    return GraniteForCausalLM(GraniteConfig(**SMALL, logits_scaling=3.0))


@pytest.mark.parametrize("make", [gemma, cohere, granite, llama])
def test_soft_caps_and_logit_scales_are_read_from_the_config(make: Any) -> None:
    verify(make().eval())


def test_a_scale_that_the_config_does_not_tell_is_noticed() -> None:
    model = cohere().eval()
    model.config.logit_scale = 1.0  # the model itself keeps 0.3
    with pytest.raises(UsageError, match="logit scale and soft cap"):
        verify(model)


class Capped(LlamaForCausalLM):
    """Bounds its logits without a word in its config."""

    def forward(self, **inputs: Any) -> Any:
        output = super().forward(**inputs)
        output.logits = 2.0 * torch.tanh(output.logits / 2.0)
        return output


def test_a_cap_that_the_config_does_not_tell_is_noticed() -> None:
    with pytest.raises(UsageError, match="logit scale and soft cap"):
        verify(Capped(llama().config).eval())


class Bidirectional(LlamaForCausalLM):
    """Looks at the last token of the row wherever it is."""

    def get_decoder(self) -> Any:
        inner = super().get_decoder()

        def decode(**inputs: Any) -> Any:
            output = inner(**inputs)
            output.last_hidden_state = output.last_hidden_state + output.last_hidden_state[:, -1:]
            return output

        return decode


def test_a_model_that_looks_at_later_tokens_is_refused() -> None:
    with pytest.raises(UsageError, match="later tokens"):
        verify(Bidirectional(llama().config).eval())


def test_a_model_without_an_output_head_is_refused() -> None:
    with pytest.raises(UsageError, match="no output head"):
        head_of(llama().model)


@pytest.mark.parametrize("tied", [True, False])
def test_half_precision_stays_within_rounding_of_full(tied: bool) -> None:
    model = llama(tied=tied).to(torch.bfloat16)
    verify(model)
    ids = torch.arange(12)[None] * 5 % VOCABULARY
    logprobs = score(model, ids, torch.arange(11), ids[0, 1:]).logprobs
    assert logprobs.dtype == torch.float32
    logprobs.mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_the_entropy_of_equal_logits_is_the_log_of_their_number() -> None:
    hidden, head, labels = case(scale=1e-9)
    entropy = token_logprobs(hidden, head, labels).entropy
    torch.testing.assert_close(entropy, torch.full((POSITIONS,), math.log(ENTRIES)))


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_positions_that_change_with_the_longest_row_are_refused(kind):
    model = llama()
    model.config.rope_parameters = {"rope_type": kind, "rope_theta": 10000.0, "factor": 2.0}
    with pytest.raises(UsageError, match=f"LlamaForCausalLM: {kind} positions. "):
        verify(model)
