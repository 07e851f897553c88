"""Head: log-probs and entropy of chosen tokens, without a [tokens, vocabulary] tensor.

In    hidden states at the positions that are trained, a model's output head, labels
Out   each label's log-prob (differentiable) and the entropy there (not), in float32
Not   faster than plain logits for every shape: the backward pass computes them once more
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable
from torch.nn import functional

from agentrl.errors import UsageError
from agentrl.rowwise import hidden_states

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CHUNK_BYTES = {"cpu": 256 << 20, "cuda": 1 << 30}
"""What the temporaries of one chunk may take."""

CHANGING = ("dynamic", "longrope", "su")
"""Kinds of rotary positions whose frequencies depend on what else is in a batch."""

TOLERANCE = {torch.float32: 1e-4, torch.float16: 0.02, torch.bfloat16: 0.1}
"""Mean difference in nats that rounding explains, between two ways to the same log-probs."""


@dataclass(frozen=True, slots=True)
class Head:
    """What turns a hidden state into logits."""

    weight: Tensor
    """One row per vocabulary entry; the embedding itself where the two are tied."""
    bias: Tensor | None = None
    scale: float = 1.0
    """Factor on the logits (Cohere, Granite)."""
    softcap: float | None = None
    """Bound c of c·tanh(logits / c), after the scale (Gemma)."""


class TokenScores(NamedTuple):
    """One entry per chosen position."""

    logprobs: Tensor
    entropy: Tensor
    """Nats, at the same temperature; carries no gradient."""


def head_of(model: PreTrainedModel) -> Head:
    """The output head of a causal language model, as its config describes it."""
    layer = model.get_output_embeddings()
    if layer is None or not hasattr(layer, "weight"):
        raise UsageError(
            f"{type(model).__name__}: no output head. Training needs a causal language model. "
            "Name a folder whose config.json lists a ...ForCausalLM architecture."
        )
    config = model.config.get_text_config()
    scale = getattr(config, "logit_scale", None) or 1.0
    divisor = getattr(config, "logits_scaling", None) or 1.0
    softcap = getattr(config, "final_logit_softcapping", None)
    return Head(layer.weight, getattr(layer, "bias", None), scale / divisor, softcap)


def token_logprobs(
    hidden: Tensor,
    head: Head,
    labels: Tensor,
    *,
    temperature: float = 1.0,
    chunk: int | None = None,
) -> TokenScores:
    """Score `labels[i]` under the distribution that `hidden[i]` gives.

    `chunk` positions are held as logits at a time; None takes what CHUNK_BYTES allows.
    """
    rows = chunk or _rows_per_chunk(head.weight)
    hidden = hidden.to(head.weight.dtype)
    logprobs, entropy = _TokenLogprobs.apply(  # type: ignore[no-untyped-call]
        hidden, head.weight, head.bias, labels, head.scale, head.softcap, temperature, rows
    )
    return TokenScores(logprobs, entropy)


def score(
    model: PreTrainedModel,
    ids: Tensor,
    at: Tensor,
    labels: Tensor,
    *,
    lengths: Sequence[int] = (),
    temperature: float = 1.0,
) -> TokenScores:
    """Score labels at flat positions `at` of `ids`.

    With `lengths`, `ids` are packed rows [1, tokens]; see `rowwise`. Without, rows are padded on
    the right and need no attention mask: a causal model cannot see padding that comes after a
    token, and without a mask the fast attention kernels apply. `verify` proves it for the model.
    """
    if lengths:
        hidden = hidden_states(model, ids, lengths)
    else:
        decoder = model.get_decoder()
        hidden = decoder(input_ids=ids, attention_mask=None, use_cache=False).last_hidden_state
    picked = hidden.flatten(0, 1).index_select(0, at)
    return token_logprobs(picked, head_of(model), labels, temperature=temperature)


@torch.no_grad()
def verify(model: PreTrainedModel) -> None:
    """Refuse a model whose own logits disagree with `score` on a padded random row."""
    head = head_of(model)
    _refuse_changing_positions(model)
    draw = torch.Generator().manual_seed(0)
    width, padding = 12, 4
    row = torch.randint(head.weight.shape[0], (1, width), generator=draw).to(head.weight.device)
    logits = model(input_ids=row, attention_mask=None, use_cache=False).logits[0, :-1].float()
    own = logits.log_softmax(-1).gather(1, row[0, 1:, None]).squeeze(1)
    at = torch.arange(width - 1, device=row.device)
    padded = functional.pad(row, (0, padding)).expand(2, -1)
    ours = score(model, padded, at, row[0, 1:]).logprobs
    gap = (own - ours).abs().mean().item()
    if not gap <= TOLERANCE.get(head.weight.dtype, TOLERANCE[torch.float32]):
        raise UsageError(
            f"{type(model).__name__}: log-probs from its hidden states are {gap:.2g} nats off "
            "those of its own logits. Its head does more than weight, bias, logit scale and soft "
            "cap, or it looks at later tokens. Take a causal model of another architecture."
        )


def _refuse_changing_positions(model: PreTrainedModel) -> None:
    config = model.config.get_text_config()
    scaling = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    kinds = [scaling, *(scaling.values() if isinstance(scaling, dict) else ())]
    named = [k.get("rope_type", k.get("type")) for k in kinds if isinstance(k, dict)]
    changing = [kind for kind in named if kind in CHANGING]
    if changing:
        raise UsageError(
            f"{type(model).__name__}: {changing[0]} positions. Their frequencies follow the "
            "longest row of a micro-batch, so a row's gradient would depend on its neighbours. "
            "Take a model with fixed ones, such as yarn or llama3."
        )


def _rows_per_chunk(weight: Tensor) -> int:
    """Logits in float32, their exponentials and a half-precision copy: 10 bytes an entry."""
    budget = CHUNK_BYTES.get(weight.device.type, CHUNK_BYTES["cpu"])
    return max(16, budget // (10 * weight.shape[0]))


def _bounded(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, scale: float, softcap: float | None
) -> Tensor:
    """Logits in float32; under a soft cap c, tanh(logits / c) instead."""
    logits = functional.linear(hidden, weight, bias).float()
    if scale != 1.0:
        logits.mul_(scale)
    return logits.div_(softcap).tanh_() if softcap else logits


def _scores(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-prob, entropy and log of the normaliser; the logits are used up."""
    top = logits.amax(-1, keepdim=True)
    logits.sub_(top)
    exponentials = logits.exp()
    total = exponentials.sum(-1)
    log_total = total.log()
    logprobs = logits.gather(1, labels[:, None]).squeeze(1) - log_total
    entropy = log_total - exponentials.mul_(logits).sum(-1) / total
    return logprobs, entropy, log_total + top.squeeze(-1)


class _TokenLogprobs(Function):
    """Keeps one float per position for backward: the log of the normaliser."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        scale: float,
        softcap: float | None,
        temperature: float,
        rows: int,
    ) -> tuple[Tensor, Tensor]:
        """Log-prob and entropy, chunk by chunk."""
        logprobs, entropy, normaliser = hidden.new_empty((3, len(labels)), dtype=torch.float32)
        for start in range(0, len(labels), rows):
            part = slice(start, start + rows)
            logits = _bounded(hidden[part], weight, bias, scale, softcap)
            logits.mul_((softcap or 1.0) / temperature)
            logprobs[part], entropy[part], normaliser[part] = _scores(logits, labels[part])
            del logits  # before the next chunk's
        ctx.save_for_backward(hidden, weight, bias, labels, normaliser)
        ctx.shape = scale, softcap, temperature, rows
        ctx.mark_non_differentiable(entropy)
        return logprobs, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
        """(one-hot - softmax) · grad · scale / temperature, from logits computed again."""
        hidden, weight, bias, labels, normaliser = ctx.saved_tensors
        scale, softcap, temperature, rows = ctx.shape
        wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        to_hidden = torch.empty_like(hidden) if wants_hidden else None
        # Sums over many chunks lose too much in half precision.
        to_weight = torch.zeros_like(weight, dtype=torch.float32) if wants_weight else None
        to_bias = torch.zeros_like(bias, dtype=torch.float32) if wants_bias else None
        grad = grad.float() * (scale / temperature)
        for start in range(0, len(labels), rows):
            part = slice(start, start + rows)
            bounded = _bounded(hidden[part], weight, bias, scale, softcap)
            logits = bounded * softcap if softcap else bounded
            slope = logits.div_(temperature).sub_(normaliser[part, None]).exp_()
            slope.mul_(-grad[part, None])
            slope.scatter_add_(1, labels[part, None], grad[part, None])
            if softcap:
                slope.mul_(bounded.square_().neg_().add_(1))
            del bounded, logits
            if to_bias is not None:
                to_bias += slope.sum(0)
            slope = slope.to(weight.dtype)
            if to_hidden is not None:
                torch.mm(slope, weight, out=to_hidden[part])
            if to_weight is not None:
                _add_product(to_weight, slope, hidden[part])
            del slope  # before the next chunk's
        return to_hidden, to_weight, to_bias, *[None] * 5


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add leftᵀ·right to a float32 total, without a copy where the types agree."""
    if total.dtype == left.dtype:
        total.addmm_(left.T, right)
    else:
        total.add_(left.T @ right)
