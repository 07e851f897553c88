"""Packing: whether a model computes packed rows as it computes each alone.

In    a causal language model
Out   nothing, or the reason why its rows have to be padded
Not   a proof for rows longer than those tried
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from agentrl.head import TOLERANCE, head_of, score
from agentrl.oom import is_oom

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LENGTHS = (5, 12, 2, 12)
"""The rows that are tried: unequal, with two alike, one of them short."""

LONGEST_WINDOW = 8192
"""A sliding window up to this is tried with a row that is longer."""

_LAYERS = {"full_attention", "sliding_attention"}


@torch.no_grad()
def packable(model: PreTrainedModel) -> str:
    """Why this model's rows can't be packed; "" where they can.

    Packed rows are compared with the same rows one by one, through the model's own attention.
    What they differ by must be rounding, and far below what it would be if rows saw each other.
    """
    config = model.config.get_text_config()
    odd = sorted(set(getattr(config, "layer_types", None) or ()) - _LAYERS)
    if odd:
        return f"it has layers of type {', '.join(odd)}."
    window = getattr(config, "sliding_window", None) or 0
    lengths = (window + 3 if 0 < window <= LONGEST_WINDOW else 3, *LENGTHS)
    weight = head_of(model).weight
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(weight.shape[0], (1, sum(lengths)), generator=draw).to(weight.device)
    rows = ids.split(lengths, 1)
    alone = torch.cat([_logprobs(model, row, row.shape[1:], packed=False) for row in rows])
    mixed = _logprobs(model, ids, lengths, packed=False)
    try:
        packed = _logprobs(model, ids, lengths, packed=True)
    except Exception as error:
        if is_oom(error):
            raise
        reason = re.split(r"\.\s|\n", str(error))[0].rstrip(".")
        return f"packed rows do not go through it. {type(error).__name__}: {reason}."
    gap, leak = ((found - alone).abs().mean().item() for found in (packed, mixed))
    if gap <= min(TOLERANCE.get(weight.dtype, TOLERANCE[torch.float32]), leak / 3):
        return ""
    return f"log-probs of packed rows are {gap:.2g} nats off those of the same rows alone."


def _logprobs(
    model: PreTrainedModel, ids: Tensor, lengths: Sequence[int], *, packed: bool
) -> Tensor:
    """Of all tokens but the first of each row."""
    first = torch.zeros(ids.shape[1], dtype=torch.bool)
    first[torch.tensor([0, *lengths[:-1]]).cumsum(0)] = True
    at = (~first).nonzero().squeeze(1).to(ids.device)
    return score(model, ids, at - 1, ids[0, at], lengths=lengths if packed else ()).logprobs
