"""Samples for tests of the update."""

from __future__ import annotations

import math
from typing import Any

import torch

from agentrl.sample import Sample
from tests.models import VOCABULARY


def sample(seed: int, prompt: int, sampled: int, advantage: float, **options: Any) -> Sample:
    """Prompt, sampled tokens, an observation of three, one more sampled token."""
    draw = torch.Generator().manual_seed(seed)
    length = prompt + sampled + 4
    mask = [0] * prompt + [1] * sampled + [0, 0, 0, 1]
    guesses = (-5.0 * torch.rand(length, generator=draw)).tolist()
    return Sample(
        input_ids=tuple(torch.randint(VOCABULARY, (length,), generator=draw).tolist()),
        loss_mask=tuple(mask),
        logprobs=tuple(g if m else math.nan for g, m in zip(guesses, mask, strict=True)),
        advantage=advantage,
        **options,
    )


SHAPES = [
    (4, 9, 1.0),
    (9, 1, -0.5),
    (3, 20, 0.7),
    (5, 5, -1.2),
    (9, 2, 0.1),
    (2, 8, -1.0),
    (6, 6, 2.0),
]
SAMPLES = [sample(i, *shape) for i, shape in enumerate(SHAPES)]
