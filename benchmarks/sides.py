"""Our side of the update's benchmark: models, the learner with switches, a plain loop.

In    a model's name; rollouts
Out   float32 models; a learner that does one thing at a time as TRL does it; bare passes
Not   a faster way: every switch makes it slower
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from trajectories import Rollouts
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from agentrl import smollm
from agentrl.errors import UsageError
from agentrl.head import head_of, score
from agentrl.layout import Rows, lay_out
from agentrl.loss import clipped_loss
from agentrl.plan import MicroBatch, plan
from agentrl.recompute import recomputing
from agentrl.rowwise import by_rows, hidden_states
from agentrl.sample import Sample
from agentrl.update import Learner
from agentrl.weights import TINY

ROWS = 8
"""Of a micro-batch of TRL: its default."""
WIDE = {
    "vocab_size": 151_936,
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "tie_word_embeddings": True,
}
SMOLLM = {
    "vocab_size": 49_152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "tie_word_embeddings": True,
}


def model_of(name: str, quick: bool = False) -> tuple[PreTrainedModel, str]:
    """A model in float32, and where its weights come from."""
    if name == "tiny":
        return _loaded(TINY), "embedded"
    if name == "vocabulary":
        return _random(WIDE), "random"
    if quick:
        return _random(SMOLLM | {"num_hidden_layers": 2}), "random, 2 layers"
    try:
        return _loaded(smollm.folder()), "installed"
    except UsageError:
        return _random(SMOLLM), "random"


def _loaded(folder: Path) -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model


def _random(shape: dict[str, Any]) -> PreTrainedModel:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**shape, bos_token_id=0, eos_token_id=1))


class Switched(Learner):
    """The learner with one thing at a time done as TRL does it."""

    as_trl = False
    """Micro-batches of ROWS rows as they come, padded to the longest of all."""
    every_position = False
    """Score padding, prompts and tools too."""

    def switch(
        self, *, as_trl: bool = False, every_position: bool = False, shared: bool = True
    ) -> None:
        """From the next step on; prompts are `shared` where the learner itself would."""
        self.as_trl, self.every_position = as_trl, every_position
        self._packed = not as_trl and not self.padded_because
        if not hasattr(self, "_can_share"):
            self._can_share = self._shared
        self._shared = self._packed and shared and self._can_share

    def _planned(self, work: Any) -> tuple[tuple[MicroBatch, ...], ...]:
        if not self.as_trl:
            return super()._planned(work)
        self._width = max(work.lengths)
        starts = range(0, len(work.lengths), ROWS)
        cut = (tuple(range(start, start + ROWS)) for start in starts)
        return (tuple(MicroBatch(rows, len(rows) * self._width) for rows in cut),)

    def _backward(self, rows: Sequence[tuple[Sample, float]]) -> Tensor:
        if not self.as_trl:
            return super()._backward(rows)
        laid = _widened(lay_out(*zip(*rows, strict=True)), self._width)
        if self.every_position:
            laid = _everywhere(laid)
        found = score(self.model, laid.ids, laid.at, laid.labels)
        sums = clipped_loss(
            found.logprobs, laid.behaviour, laid.advantages, laid.weights, **self._clip
        )
        sums.loss.backward()
        scalars = (sums.loss.detach(), found.entropy.sum(), *sums[1:])
        return torch.stack([value.float() for value in scalars])


def _widened(laid: Rows, width: int) -> Rows:
    """Rows padded further."""
    own = laid.ids.shape[1]
    at = laid.at // own * width + laid.at % own
    return Rows(
        functional.pad(laid.ids, (0, width - own)),
        at,
        laid.labels,
        laid.behaviour,
        laid.advantages,
        laid.weights,
        laid.owner,
    )


def _everywhere(laid: Rows) -> Rows:
    """An entry for every position; those that are not trained weigh nothing."""
    places = laid.ids.numel()

    def spread(values: Tensor, fill: float) -> Tensor:
        return torch.full((places,), fill).index_copy(0, laid.at, values)

    return Rows(
        laid.ids,
        torch.arange(places),
        laid.ids.flatten().roll(-1),
        spread(laid.behaviour, float("nan")),
        spread(laid.advantages, 0.0),
        spread(laid.weights, 0.0),
        torch.arange(places) // laid.ids.shape[1],
    )


def bare(model: PreTrainedModel, data: Rollouts, cap: int, own_head: bool) -> None:
    """Forward and backward over packed rows, and nothing else."""
    (batches,) = plan(data.lengths, cap)
    with recomputing(model), by_rows(model):
        for batch in batches:
            rows = [data.samples[row] for row in batch.rows]
            laid = lay_out(rows, [1.0] * len(rows), packed=True)
            if own_head:
                found = score(model, laid.ids, laid.at, laid.labels, lengths=laid.lengths)
                (-found.logprobs.sum()).backward()
                continue
            hidden = hidden_states(model, laid.ids, laid.lengths)[0, laid.at]
            logits = functional.linear(hidden, head_of(model).weight)
            functional.cross_entropy(logits, laid.labels, reduction="sum").backward()
    model.zero_grad()
