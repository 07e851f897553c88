"""Layout: the samples of one micro-batch as tensors.

In    samples with the weight of each of their tokens
Out   Rows: ids, packed or padded, and one entry per trained token of all that the loss reads
Not   an attention mask: packed rows are told apart by their lengths, and padding is on the right,
      where a causal model cannot see it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from agentrl.sample import Sample


@dataclass(frozen=True, slots=True)
class Rows:
    """A micro-batch; all but `ids` and `lengths` have one entry per trained token."""

    ids: Tensor
    """[1, tokens] of packed rows, or [rows, longest], padded on the right with 0."""
    at: Tensor
    """Flat position of the hidden state that predicts the token."""
    labels: Tensor
    behaviour: Tensor
    """The engine's log-probs; NaN where it gave none."""
    advantages: Tensor
    weights: Tensor
    owner: Tensor
    """Which row the token is of, from 0 and rising."""
    lengths: tuple[int, ...] = ()
    """Of the packed rows, in order; none where rows are padded."""

    @property
    def columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """What the loss reads beside the learner's log-probs."""
        return self.behaviour, self.advantages, self.weights

    def to(self, device: torch.device) -> Rows:
        """The same on another device."""

        def moved(column: Tensor) -> Tensor:
            return column.to(device, non_blocking=True)

        return Rows(
            moved(self.ids),
            moved(self.at),
            moved(self.labels),
            moved(self.behaviour),
            moved(self.advantages),
            moved(self.weights),
            moved(self.owner),
            self.lengths,
        )


def lay_out(
    samples: Sequence[Sample], token_weights: Sequence[float], *, packed: bool = False
) -> Rows:
    """Lay samples one after the other, or padded to the longest, and gather what is trained.

    No samples make one token that is not trained: a forward pass whose loss is 0.
    """
    if any(s.loss_mask[0] for s in samples):
        raise ValueError("the first token of a sample has nothing before it to predict it.")
    lengths = tuple(len(s.input_ids) for s in samples) or (1,)
    shape = (1, sum(lengths)) if packed else (len(lengths), max(lengths))
    firsts = [0, *accumulate(lengths[:-1])] if packed else range(0, shape[0] * shape[1], shape[1])
    ids = torch.zeros(shape, dtype=torch.long)
    trained = torch.zeros(shape, dtype=torch.bool)
    behaviour = torch.zeros(shape)
    for first, length, sample in zip(firsts, lengths, samples, strict=False):
        part = slice(first, first + length)
        ids.view(-1)[part] = torch.tensor(sample.input_ids)
        trained.view(-1)[part] = torch.tensor(sample.loss_mask, dtype=torch.bool)
        behaviour.view(-1)[part] = torch.tensor(sample.logprobs)
    at = trained.flatten().nonzero().squeeze(1)
    row_of = torch.searchsorted(torch.tensor(list(firsts)), at, right=True) - 1
    return Rows(
        ids=ids,
        at=at - 1,
        labels=ids.flatten()[at],
        behaviour=behaviour.flatten()[at],
        advantages=torch.tensor([s.advantage for s in samples], dtype=torch.float32)[row_of],
        weights=torch.tensor(list(token_weights), dtype=torch.float32)[row_of],
        owner=row_of,
        lengths=lengths if packed else (),
    )
