"""Figures: what one update did.

In    sums that micro-batches made, counts of the plan
Out   UpdateReport
Not   metrics: those have names, and are of a whole step
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What one step did. A number is None where it is not finite or nothing gave it."""

    loss: float | None
    grad_norm: float | None
    """Length of the gradient before clipping."""
    tokens: int
    """Of all rows, without padding."""
    tokens_padded: int
    """That went through the model: padding counts, and a prompt that rows share counts once."""
    trained_tokens: int
    micro_batches: int
    """Forward and backward passes of each rank."""
    k3: float | None
    """Mean over trained tokens whose behaviour log-prob is known."""
    max_gap: float | None
    """Largest difference between the learner's log-prob and the engine's."""
    clip_fraction: float | None
    capped: float | None
    """Share of trained tokens whose importance weight was cut to the cap."""
    masked: int
    """Rows too far from the policy that sampled them: forwarded, and without weight."""
    entropy: float | None
    """Mean over trained tokens, nats."""
    peak_bytes: int
    """Of the rank with the highest. CUDA: peak allocation. CPU: by how much the step raised the
    process's peak memory, 0 where an earlier peak was higher."""
    skipped: bool
    """The gradient was not finite, or nothing was trained; weights and optimizer are untouched."""
    oom_retries: int
    """How often memory ran out, and the step, or its move, was done again."""
    cap: int
    """Most tokens of a micro-batch from here on."""
    widest: int
    """Tokens of the widest micro-batch, padding included; what its peak was predicted from."""


def added(rows: Tensor) -> list[float]:
    """One row from several: sums, and the largest of the last column."""
    return [*rows[:, :-1].sum(0).tolist(), rows[:, -1].max().item()]


def figures(sums: Tensor, *, grad_norm: float | None, **counts: int) -> UpdateReport:
    """Means from one row of sums per rank."""
    loss, entropy, k3, known, clipped, capped, masked, gap = added(sums)
    trained = counts["trained_tokens"]
    return UpdateReport(
        loss=_finite(loss),
        grad_norm=grad_norm,
        k3=_finite(k3 / known) if known else None,
        max_gap=_finite(gap) if known else None,
        clip_fraction=clipped / trained if trained else None,
        capped=capped / trained if trained else None,
        masked=int(masked),
        entropy=_finite(entropy / trained) if trained else None,
        skipped=grad_norm is None,
        **counts,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
