"""What the update reads of one kept token sequence.

In    a branch of a kept trajectory, its advantage and weight
Out   Sample: plain numbers, one row of the update
Not   padded, packed or truncated: the plan lays samples out, the learner pads
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """One token sequence that is trained on."""

    input_ids: tuple[int, ...]
    loss_mask: tuple[int, ...]
    """1 on sampled tokens."""
    logprobs: tuple[float, ...]
    """The engine's log-probs on sampled tokens, NaN elsewhere or where it gave none."""
    advantage: float
    weight: float = 1.0
    """Selection weight, shared by the branches of a trajectory."""


def blank(tokens: int) -> Sample:
    """A row whose every token is scored, and none counts."""
    return Sample((0,) * tokens, (0, *(1,) * (tokens - 1)), (0.0,) * tokens, 0.0)
