"""Packed, padded or one by one, a row has the same gradient; a model with which not is noticed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    RecurrentGemmaConfig,
    RecurrentGemmaForCausalLM,
)

from agentrl.head import score
from agentrl.layout import lay_out
from agentrl.loss import clipped_loss
from agentrl.packing import packable
from agentrl.rowwise import by_rows
from agentrl.sample import Sample
from agentrl.update import Learner
from tests.models import VOCABULARY, llama
from tests.rows import sample

Make = Callable[[], PreTrainedModel]

SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.1,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 1,
}


def made(kind: type[PreTrainedModel], config: type[Any], **options: Any) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind(config(**SIZES | options)).eval()


def gemma2(softcap: float | None) -> PreTrainedModel:
    options = {"head_dim": 16, "sliding_window": 7, "attn_logit_softcapping": softcap}
    return made(Gemma2ForCausalLM, Gemma2Config, final_logit_softcapping=3.0, **options)


MODELS: dict[str, Make] = {
    "llama": llama,
    "qwen2": lambda: made(Qwen2ForCausalLM, Qwen2Config, tie_word_embeddings=True),
    "qwen3": lambda: made(Qwen3ForCausalLM, Qwen3Config, head_dim=16),
    "gptneox": lambda: made(GPTNeoXForCausalLM, GPTNeoXConfig),
    "mistral, window 7": lambda: made(MistralForCausalLM, MistralConfig, sliding_window=7),
    "gemma2, window 7, no soft cap in attention": lambda: gemma2(None),
}

SAMPLES = [
    *(sample(i, 3, 4, 0.5 * (-1) ** i) for i in range(3)),
    sample(3, 60, 30, 1.0),
    Sample((5, 6), (0, 1), (0.0, -2.0), -0.7),
    sample(4, 9, 1, 0.3),
    sample(5, 2, 20, -1.5),
]
"""Lengths 11, 11, 11, 94, 2, 14, 26."""


def gradient(model: PreTrainedModel, cuts: Sequence[Sequence[int]], *, packed: bool) -> Tensor:
    model.zero_grad()
    for cut in cuts:
        rows = lay_out([SAMPLES[i] for i in cut], [1 / len(SAMPLES)] * len(cut), packed=packed)
        with by_rows(model) if packed else torch.enable_grad():
            found = score(model, rows.ids, rows.at, rows.labels, lengths=rows.lengths)
            columns = (rows.behaviour, rows.advantages, rows.weights)
            clipped_loss(found.logprobs, *columns, clip_low=9.0, clip_high=9.0).loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def far(left: Tensor, right: Tensor) -> float:
    """Relative to the length of the second."""
    return ((left - right).norm() / right.norm()).item()


@pytest.mark.parametrize("name", MODELS)
def test_packed_padded_and_one_by_one_have_the_same_gradient(name: str) -> None:
    model = MODELS[name]()
    every = range(len(SAMPLES))
    alone = gradient(model, [[i] for i in every], packed=False)
    assert packable(model) == ""
    assert far(gradient(model, [every], packed=False), alone) < 1e-5
    assert far(gradient(model, [[i] for i in every], packed=True), alone) < 1e-5
    for order in (every, [3, 6, 5, 0, 1, 2, 4], [4, 0, 3, 1, 6, 2, 5]):
        for size in (7, 4, 2):
            cuts = [order[i : i + size] for i in range(0, len(order), size)]
            assert far(gradient(model, cuts, packed=True), alone) < 1e-5


class Watched:
    """A learner whose gradient is kept at the moment it would be used."""

    def __init__(self, cap: int, **options: Any) -> None:
        self.gradient = torch.zeros(())
        self.learner = Learner(
            llama(), lr=1e-3, grad_norm=1e9, tokens_per_micro_batch=cap, loss="dapo", **options
        )
        self.learner._optimizer.register_step_pre_hook(self.look)

    def look(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        every = [p.grad.flatten() for p in optimizer.param_groups[0]["params"]]
        self.gradient = torch.cat(every).clone()


@pytest.mark.parametrize("checkpointing", ["none", "layers", "offload"])
def test_a_step_is_the_same_over_one_two_four_and_seven_micro_batches(checkpointing: str) -> None:
    equal = [sample(i, 6, 10, (-1.0) ** i + i / 10) for i in range(7)]
    padded = Watched(200, packing=False)
    padded.learner.step(equal, 7)
    for count, cap in {1: 140, 2: 80, 4: 40, 7: 20}.items():
        packed = Watched(cap, checkpointing=checkpointing)
        report = packed.learner.step(equal, 7)
        assert report.micro_batches == count
        assert report.tokens_padded == report.tokens
        assert far(packed.gradient, padded.gradient) < 1e-5


def test_skewed_rows_train_without_padding_and_under_the_cap() -> None:
    packed = Watched(95)
    report = packed.learner.step(SAMPLES, len(SAMPLES))
    padded = Watched(95, packing=False)
    wide = padded.learner.step(SAMPLES, len(SAMPLES))
    assert (report.micro_batches, report.tokens_padded) == (
        2,
        sum(len(s.input_ids) for s in SAMPLES),
    )
    assert wide.micro_batches > 2
    assert far(packed.gradient, padded.gradient) < 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_half_precision_is_told_from_a_leak(name: str) -> None:
    assert packable(MODELS[name]().to(torch.bfloat16)) == ""


class Leaking(LlamaForCausalLM):
    """Does with packed rows what transformers does when it is called the usual way."""

    leak: Callable[[dict[str, Any]], Any]

    def get_decoder(self) -> Any:
        inner, own = super().get_decoder(), "sdpa"

        def decode(**inputs: Any) -> Any:
            if "packed_rows" not in inputs:
                return inner(**inputs)
            set_to, self.config._attn_implementation = self.config._attn_implementation, own
            try:
                return inner(**inputs | type(self).leak(inputs))
            finally:
                self.config._attn_implementation = set_to

        return decode


def ones(inputs: dict[str, Any]) -> dict[str, Any]:
    return {"attention_mask": torch.ones_like(inputs["input_ids"])}


LEAKS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "a mask of ones": ones,
    "a cache": lambda _: {"use_cache": True},
    "positions that go on": lambda _: {"position_ids": None},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", LEAKS)
def test_settings_that_leak_are_noticed(name: str, dtype: torch.dtype) -> None:
    kind = type("Leaks", (Leaking,), {"leak": staticmethod(LEAKS[name])})
    reason = packable(kind(llama().config).eval().to(dtype))
    assert reason.startswith("log-probs of packed rows are 0.")


class Rejoining(LlamaForCausalLM):
    """Loses the edges on the way, and takes all rows for one."""

    def get_decoder(self) -> Any:
        inner = super().get_decoder()

        def decode(**inputs: Any) -> Any:
            if edges := inputs.get("packed_rows"):
                inputs["packed_rows"] = type(edges).of(
                    (sum(edges.lengths),), edges.positions.device
                )
            return inner(**inputs)

        return decode


class Forgetting(LlamaForCausalLM):
    """Does not hand the edges on."""

    def get_decoder(self) -> Any:
        inner = super().get_decoder()
        return lambda packed_rows=None, **inputs: inner(**inputs)


def test_dropped_edges_are_noticed() -> None:
    assert "nats off" in packable(Rejoining(llama().config).eval())
    assert "where rows begin" in packable(Forgetting(llama().config).eval())


class Neighbourly(LlamaForCausalLM):
    """Mixes a little of the token before into each, as short convolutions do."""

    def get_decoder(self) -> Any:
        inner = super().get_decoder()

        def decode(**inputs: Any) -> Any:
            output = inner(**inputs)
            hidden = output.last_hidden_state
            output.last_hidden_state = hidden + 0.1 * functional.pad(hidden, (0, 0, 1, -1))
            return output

        return decode


def mamba() -> PreTrainedModel:
    return MambaForCausalLM(
        MambaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4)
    ).eval()


def bloom() -> PreTrainedModel:
    return BloomForCausalLM(
        BloomConfig(vocab_size=VOCABULARY, hidden_size=64, n_layer=2, n_head=4)
    ).eval()


REFUSED: dict[str, tuple[Make, str]] = {
    "a soft cap": (lambda: gemma2(50.0), "attention with softcap"),
    "a state": (mamba, "layers of type linear_attention"),
    "a recurrence": (
        lambda: made(RecurrentGemmaForCausalLM, RecurrentGemmaConfig, head_dim=16),
        "nats off",
    ),
    "positions of its own": (bloom, "nats off"),
    "a convolution": (lambda: Neighbourly(llama().config).eval(), "nats off"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_mixes_rows_is_refused_with_the_reason(name: str) -> None:
    make, words = REFUSED[name]
    assert words in packable(make())


def test_a_model_that_cannot_be_packed_is_trained_with_padding() -> None:
    learner = Learner(gemma2(50.0), lr=1e-3)
    assert "attention with softcap" in learner.padded_because
    report = learner.step(SAMPLES[:4], 4)
    assert report.tokens_padded == 4 * 94


def test_a_check_changes_neither_weights_nor_attention_nor_gradients() -> None:
    model = llama()
    before = [p.clone() for p in model.parameters()]
    assert packable(model) == ""
    assert model.config._attn_implementation == "sdpa"
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())
