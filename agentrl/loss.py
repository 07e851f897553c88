"""Loss: how much each sampled token counts, and the clipped objective.

In    log-probs now and when sampled, an advantage and a weight per token
Out   a scalar whose sum over any micro-batches is the loss of the whole step
Not   advantages: who normalises what is decided in advantage.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from agentrl.errors import UsageError, suggestion

LOG_RATIO_BOUND = 20.0
"""Log-ratios are held within ± this before exp; a token beyond it has no gradient."""
RATIO_FLOOR = 1e-4
"""A token that the learner finds so much less likely than the engine did came from elsewhere."""

TokenWeights = Callable[[Sequence[int], Sequence[float], int], list[float]]
"""(trained tokens of each sample, weight of each sample, K) -> weight of each of its tokens."""


def _mean_of_means(tokens: Sequence[int], weights: Sequence[float], kept: int) -> list[float]:
    """Every trajectory counts the same, however long: 1 / (K · its tokens)."""
    return [w / (kept * max(n, 1)) for n, w in zip(tokens, weights, strict=True)]


def _mean_of_tokens(tokens: Sequence[int], weights: Sequence[float], kept: int) -> list[float]:
    """Every sampled token of the step counts the same: 1 / all of them."""
    return [w / max(sum(tokens), 1) for w in weights]


def _constant(tokens: Sequence[int], weights: Sequence[float], kept: int) -> list[float]:
    """One constant for the step, 1 / (K · most trained tokens of a sample): no length bias."""
    return [w / (kept * max(*tokens, 1)) for w in weights]


LOSSES: Mapping[str, TokenWeights] = MappingProxyType(
    {"grpo": _mean_of_means, "dapo": _mean_of_tokens, "dr_grpo": _constant}
)
"""How a loss averages. What `dr_grpo` leaves out of its advantages is advantage.py's."""


def loss_named(name: str) -> TokenWeights:
    """How a loss averages.

    Raises:
        UsageError: there is no such loss.
    """
    if name not in LOSSES:
        hint = suggestion(name, LOSSES, ", ".join(LOSSES))
        raise UsageError(f"--loss {name}: no such loss. {hint}")
    return LOSSES[name]


@dataclass(frozen=True, slots=True)
class Trust:
    """How far a token may be from the policy that sampled it; see clipped_loss."""

    clip_low: float = 0.2
    clip_high: float = 0.2
    tis_cap: float = 0.0
    mismatch_limit: float = 0.0


class TokenSums(NamedTuple):
    """What a micro-batch adds to the report of its step, as scalars on the device."""

    loss: Tensor
    """The only one with a gradient."""
    k3: Tensor
    """Sum of ratio - 1 - log ratio: estimates the divergence of learner from engine."""
    known: Tensor
    """Tokens whose behaviour log-prob the engine gave."""
    clipped: Tensor
    """Tokens without gradient because the ratio left its range in the good direction."""
    capped: Tensor
    """Tokens whose importance weight was cut to the cap."""
    masked: Tensor
    """Rows that are too far from the policy that sampled them, and count for nothing."""
    gap: Tensor
    """Largest difference between the two log-probs."""


def clipped_loss(
    logprobs: Tensor,
    behaviour: Tensor,
    advantages: Tensor,
    weights: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    tis_cap: float = 0.0,
    mismatch_limit: float = 0.0,
    owner: Tensor | None = None,
) -> TokenSums:
    """PPO's clipped objective, negated and summed with the given token weights.

    The ratio is taken against the log-probs that the engine sampled with. A step makes
    one optimizer update, so against log-probs computed anew at its start every ratio
    would be 1 and the clip would do nothing; against the engine's it bounds how far
    rounding and staleness can carry a token. A token whose engine gave none (NaN)
    counts with ratio 1. Both replacements come before exp, where an overflow would
    turn a discarded value into a NaN gradient.

    Args:
        logprobs: Of the learner; the only ones with a gradient.
        behaviour: Of the engine.
        advantages: Of each token.
        weights: Of each token.
        clip_low: A ratio may fall to 1 - this.
        clip_high: A ratio may rise to 1 + this.
        tis_cap: Most that a ratio weighs; 0: no limit. The clip bounds only what an advantage
            asks for: a ratio far above 1 with a negative advantage is left to this.
        mismatch_limit: A row counts for nothing where the mean of its |log ratio| is above this,
            or any of its ratios below RATIO_FLOOR; 0 keeps all.
        owner: Which row each token is of, rising; read where there is a mismatch_limit.
    """
    known = ~behaviour.isnan()
    behaviour = torch.where(known, behaviour, logprobs.detach())
    log_ratio = (logprobs - behaviour).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
    ratio = log_ratio.exp()
    bounded = ratio.clamp(1 - clip_low, 1 + clip_high)
    gain = torch.minimum(ratio * advantages, bounded * advantages)
    with torch.no_grad():
        clipped = (ratio > 1 + clip_high) & (advantages > 0)
        clipped |= (ratio < 1 - clip_low) & (advantages < 0)
        gap = (logprobs - behaviour).abs()
        k3 = ratio - 1 - log_ratio
        capped = ratio > tis_cap if tis_cap else torch.zeros_like(known)
        strange, rows = torch.zeros_like(known), known.new_zeros(1)
    if tis_cap:
        gain = gain * (tis_cap / ratio.detach()).clamp(max=1.0)
    if mismatch_limit:
        assert owner is not None
        rows, row = _strange(log_ratio.detach(), known, owner, mismatch_limit)
        strange = rows[row]
        weights = torch.where(strange, 0.0, weights)
    return TokenSums(
        loss=-(weights * gain).sum(),
        k3=k3.sum(),
        known=known.sum(),
        clipped=(clipped & ~strange).sum(),
        capped=(capped & ~strange).sum(),
        masked=rows.sum(),
        gap=gap.max() if len(gap) else gap.sum(),
    )


def _strange(
    log_ratio: Tensor, known: Tensor, owner: Tensor, limit: float
) -> tuple[Tensor, Tensor]:
    """Which rows another policy must have sampled, and which of these rows each token is of.

    Averaged over the row's own tokens: a product of ratios grows with the length, and would
    mask whatever is long.
    """
    names, row = owner.unique_consecutive(return_inverse=True)
    zeros = log_ratio.new_zeros(len(names))
    total = zeros.index_add(0, row, log_ratio.abs())
    tokens = zeros.index_add(0, row, known.to(zeros.dtype))
    least = zeros.scatter_reduce(0, row, log_ratio, "amin")
    return (total / tokens.clamp(min=1) > limit) | (least < math.log(RATIO_FLOOR)), row
