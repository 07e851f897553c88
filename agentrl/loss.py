"""Loss: how much each sampled token counts, and the clipped objective.

In    log-probs now and when sampled, an advantage and a weight per token
Out   a scalar whose sum over any micro-batches is the loss of the whole step
Not   advantages: who normalises what is decided in advantage.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from agentrl.errors import UsageError, suggestion

LOG_RATIO_BOUND = 20.0
"""Log-ratios are held within ± this before exp; a token beyond it has no gradient."""

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
) -> TokenSums:
    """PPO's clipped objective, negated and summed with the given token weights.

    The ratio is taken against the log-probs that the engine sampled with. A step makes
    one optimizer update, so against log-probs computed anew at its start every ratio
    would be 1 and the clip would do nothing; against the engine's it bounds how far
    rounding and staleness can carry a token. A token whose engine gave none (NaN)
    counts with ratio 1. Both replacements come before exp, where an overflow would
    turn a discarded value into a NaN gradient.
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
    return TokenSums(
        loss=-(weights * gain).sum(),
        k3=k3.sum(),
        known=known.sum(),
        clipped=clipped.sum(),
        gap=gap.max() if len(gap) else gap.sum(),
    )
