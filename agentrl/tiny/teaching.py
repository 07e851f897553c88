"""Supervised steps: from random weights to a policy with habits.

In    a model, a phase, its batches
Out   the model, changed in place, and the loss of its last steps, nats a row
Not   repeatable to the bit unless the number of threads is the same
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import LlamaForCausalLM

from agentrl.tiny.lessons import Batch

Say = Callable[[str], None]

WARM_UP: Final = 50
"""Steps."""
RECENT: Final = 50
"""Steps that a reported loss is the mean of."""
MAX_NORM: Final = 30.0
"""Of a step's gradient; a row has about as many taught tokens."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One stretch of teaching."""

    name: str
    steps: int
    rows: tuple[int, ...]
    """Sequences in a step: of each subject, or of random tokens."""
    lr: float
    """Learning rate after the warm-up."""
    last: float
    """Share of it that is left at the end of a cosine."""
    habits: Mapping[str, float] | None = None
    """Shares of the demonstrations; None where random tokens are copied."""


MIXED: Final = {"right": 0.35, "part": 0.15, "misread": 0.10, "guess": 0.40}
PHASES: Final = (
    Phase("copy", 1000, (32,), 2e-3, 1.0),
    Phase("clean", 2600, (32, 14), 2e-3, 0.03, {"right": 1.0}),
    Phase("mixed", 800, (40, 16), 1e-3, 0.02, MIXED),
)
"""Habits come last: what is said once is how the policy begins to be reinforced."""


def teach(
    model: LlamaForCausalLM, phase: Phase, batches: Iterable[Sequence[Batch]], say: Say
) -> float:
    """Take a phase's steps, each of some batches; returns the mean loss of the last ones."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=phase.lr, betas=(0.9, 0.95), weight_decay=0.01
    )
    losses: list[float] = []
    begin = time.monotonic()
    for step, batch in enumerate(itertools.islice(batches, phase.steps)):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(phase, step)
        losses.append(_backward(model, batch))
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % RECENT == 0:
            spent = time.monotonic() - begin
            left = spent / (step + 1) * (phase.steps - step - 1)
            recent = sum(losses[-RECENT:]) / RECENT
            say(
                f"{phase.name} {step + 1}/{phase.steps}  loss {recent:.4f}  "
                f"{spent:.0f} s, {left:.0f} s left"
            )
    return sum(losses[-RECENT:]) / len(losses[-RECENT:])


def _backward(model: LlamaForCausalLM, batches: Sequence[Batch]) -> float:
    """Add the gradient of a step's mean over rows; returns that mean."""
    rows = sum(len(batch.ids) for batch in batches)
    total = 0.0
    for batch in batches:
        loss = loss_of(model, batch) * (len(batch.ids) / rows)
        loss.backward()
        total += loss.item()
    return total


def learning_rate(phase: Phase, step: int) -> float:
    """Up in a line, then down along a cosine."""
    fallen = 0.5 * (1 + math.cos(math.pi * step / phase.steps))
    return phase.lr * min(1, (step + 1) / WARM_UP) * (phase.last + (1 - phase.last) * fallen)


def loss_of(model: LlamaForCausalLM, batch: Batch) -> Tensor:
    """Cross-entropy of the taught tokens, summed over a row, mean over rows.

    A mean over tokens would weigh a short row's first words more than a long one's.
    What all rows begin with is computed once and its keys and values are shared.
    """
    ids, start = batch.ids, batch.shared
    cache: Any = None
    if start:
        cache = model.model(ids[:1, :start], use_cache=True).past_key_values
        for layer in cache.layers:
            layer.keys = layer.keys.expand(len(ids), -1, -1, -1)
            layer.values = layer.values.expand(len(ids), -1, -1, -1)
    hidden = model.model(
        ids[:, start:-1], past_key_values=cache, use_cache=cache is not None
    ).last_hidden_state
    taught = batch.taught[:, start + 1 :]
    loss = cross_entropy(
        model.lm_head(hidden[taught]), ids[:, start + 1 :][taught], reduction="sum"
    )
    return loss / len(ids)
