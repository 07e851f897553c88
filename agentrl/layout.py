"""Layout: the samples of one micro-batch as tensors.

In    samples with the weight of each of their tokens
Out   Rows: padded ids, and one entry per trained token of all that the loss reads
Not   an attention mask: padding is on the right, where a causal model cannot see it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agentrl.sample import Sample


@dataclass(frozen=True, slots=True)
class Rows:
    """A micro-batch; all but `ids` have one entry per trained token."""

    ids: Tensor
    """[rows, longest], padded on the right with 0."""
    at: Tensor
    """Flat position of the hidden state that predicts the token."""
    labels: Tensor
    behaviour: Tensor
    """The engine's log-probs; NaN where it gave none."""
    advantages: Tensor
    weights: Tensor

    def to(self, device: torch.device) -> Rows:
        """The same on another device."""
        columns = (self.ids, self.at, self.labels, self.behaviour, self.advantages, self.weights)
        return Rows(*(column.to(device, non_blocking=True) for column in columns))


def lay_out(samples: Sequence[Sample], token_weights: Sequence[float]) -> Rows:
    """Pad samples to the longest of them and gather what is trained."""
    shape = len(samples), max(len(s.input_ids) for s in samples)
    ids = torch.zeros(shape, dtype=torch.long)
    trained = torch.zeros(shape, dtype=torch.bool)
    behaviour = torch.zeros(shape)
    for row, sample in enumerate(samples):
        if sample.loss_mask[0]:
            raise ValueError("the first token of a sample has nothing before it to predict it.")
        length = len(sample.input_ids)
        ids[row, :length] = torch.tensor(sample.input_ids)
        trained[row, :length] = torch.tensor(sample.loss_mask, dtype=torch.bool)
        behaviour[row, :length] = torch.tensor(sample.logprobs)
    at = trained.flatten().nonzero().squeeze(1)
    row_of = at // shape[1]
    return Rows(
        ids=ids,
        at=at - 1,
        labels=ids.flatten()[at],
        behaviour=behaviour.flatten()[at],
        advantages=torch.tensor([s.advantage for s in samples])[row_of],
        weights=torch.tensor(list(token_weights))[row_of],
    )
