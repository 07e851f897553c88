"""Drawing tokens: one uniform number a token, so that a seed is a completion.

In    logits of a batch, temperatures, uniform numbers from each request's own generator
Out   token ids, and their log-probs under the distribution they were drawn from
Not   top-p or top-k: training needs the whole distribution
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrl.policy import Request


def uniforms(requests: Sequence[Request]) -> list[NDArray[np.float64]]:
    """Numbers in [0, 1) for each request, as many as it may draw."""
    return [np.random.default_rng(r.seed).random(r.max_tokens) for r in requests]


def draw(logits: Tensor, temperature: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one id per row by the inverse of its cumulative distribution.

    Temperature 0 takes the likeliest id; its log-prob is the one at temperature 1.
    """
    greedy = temperature == 0
    logprobs = (logits / torch.where(greedy, 1.0, temperature).unsqueeze(1)).log_softmax(-1)
    # In float32 a sum over a large vocabulary would round away its rarest tokens.
    cumulative = logprobs.exp().double().cumsum(-1)
    target = uniform.unsqueeze(1) * cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, target, right=True).clamp_(max=logits.shape[1] - 1)
    ids = torch.where(greedy.unsqueeze(1), logprobs.argmax(-1, keepdim=True), drawn)
    return ids.squeeze(1), logprobs.gather(1, ids).squeeze(1)
