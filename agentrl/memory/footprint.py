"""Footprint: the peak of one micro-batch, from config.json alone.

In    a shape, a regime, tokens of the micro-batch
Out   Footprint, part by part; the most tokens that fit into a memory, with a margin
Not   what a device really takes (calibration.py corrects that), nor memory outside torch

An update has three full moments: the head at work, a layer's backward pass, the embedding's
gradient. The peak is the fullest of them on top of the states, with gradients of an earlier
micro-batch and the optimizer's moments in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from agentrl.memory.activations import widths
from agentrl.memory.regime import GIB, Regime
from agentrl.memory.shape import Shape

_ENDLESS = 2**40

MARGIN = 0.06
"""Share of a peak that fragmentation may add."""

WHOLE = 16.5
"""Bytes of a logit where all are held at once: itself and its log-softmax in float32, and
gradients of both. Published peaks of such heads give 16.3 to 17.2."""


class _Logits(NamedTuple):
    """Bytes of a logit in a chunk."""

    forward: int
    backward: int
    added: int
    """While the chunk's part of the head's gradient is added."""


_LOGITS = {2: _Logits(8, 6, 2), 4: _Logits(8, 4, 4)}
"""Bytes of a number to counts of head.py."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes at the peak; the parts add up to it."""

    states: int
    """Weights, gradients, moments."""
    floor: int
    """Gradients and copies of weights in passing, however few the tokens."""
    activations: int
    """Grows with the tokens."""
    head: int
    """What log-probs add to that; bounded, where the head is chunked."""

    @property
    def total(self) -> int:
        """The peak."""
        return self.states + self.floor + self.activations + self.head


def footprint(shape: Shape, regime: Regime, tokens: int, trained: int | None = None) -> Footprint:
    """Predict the peak of a micro-batch.

    Args:
        shape: Of the model.
        regime: How it is trained.
        tokens: Of the micro-batch; those of padding count.
        trained: How many of them are scored; all, unless given.
    """
    scored = tokens if trained is None else trained
    token = widths(shape, regime)
    gathered = _gathered(shape, regime)
    held = _held(shape, regime)
    layers = tokens * (token.kept + token.working) + held
    at_head = tokens * (token.kept + token.final) + _head(shape, regime, tokens, scored)
    at_embedding = tokens * regime.width * shape.hidden + _embedding(shape, regime)
    columns = scored * token.scalars
    activations = tokens * (token.kept + token.working)
    floor = held + max(0.0, at_embedding - max(layers, at_head))
    return Footprint(
        states=regime.states(shape),
        floor=round(gathered + floor),
        activations=round(activations),
        head=round(columns + max(0.0, at_head - layers)),
    )


def need(predicted: int) -> int:
    """Memory that a predicted peak asks for: more, for fragmentation and what torch can't see."""
    return round(predicted * (1 + MARGIN) + min(GIB, predicted / 8))


def most_tokens(shape: Shape, regime: Regime, memory_bytes: int) -> int:
    """The largest micro-batch whose peak fits, with the margin; 0 where not one token does."""

    def fits(tokens: int) -> bool:
        wanted = need(footprint(shape, regime, tokens).total) + regime.engine_bytes
        return wanted <= memory_bytes

    return largest(fits)


def largest(fits: Callable[[int], bool]) -> int:
    """The largest number that fits, where all below it do; 0 where 1 does not."""
    if not fits(1):
        return 0
    most = 1
    while most < _ENDLESS and fits(2 * most):
        most *= 2
    step = most
    while step := step // 2:
        most += step * fits(most + step)
    return most


def _gathered(shape: Shape, regime: Regime) -> float:
    """Copies of weights that are made to be computed with."""
    layer = shape.layer_parameters
    passing = max(inputs * outputs for inputs, outputs in shape.linears)
    if regime.gathers:
        ends = shape.embedding * (1 if shape.tied else 2)
        # The next layer comes while one is at work, and that one's gradient goes.
        return 2.0 * (ends + 2 * layer) + (0 if regime.frozen else 4.0 * layer)
    return float(regime.width * passing) if regime.mode == "qlora" else 0.0


def _held(shape: Shape, regime: Regime) -> float:
    """A tied head's gradient waits for the embedding's, all through the backward pass."""
    return float(regime.width * shape.embedding) if shape.tied and not regime.frozen else 0.0


def _embedding(shape: Shape, regime: Regime) -> float:
    """The embedding's gradient; with a tied head, also the head's and their sum."""
    if regime.frozen:
        return 0.0
    return float(regime.width * shape.embedding * (3 if shape.tied else 1))


def _head(shape: Shape, regime: Regime, tokens: int, scored: int) -> float:
    """Hidden states and logits at hand, and the head's gradient while it is summed."""
    stream = regime.width * shape.hidden
    before, after = stream * (tokens + scored), stream * 2 * scored
    if regime.head == "whole":
        return before + WHOLE * shape.vocab * scored
    rows = max(16, regime.head_bytes // (10 * shape.vocab))
    chunk = float(shape.vocab * min(scored, rows))
    counts = _LOGITS[regime.width]
    if regime.frozen:
        return max(before + chunk * counts.forward, after + chunk * counts.backward)
    summed = 4.0 * shape.embedding
    # In half precision the product is made before it is added.
    product = (2.0 if regime.width == 2 else 0.0) * shape.embedding
    moments = (
        before + chunk * counts.forward,
        after + chunk * counts.backward + summed,
        after + chunk * counts.added + summed + product,
    )
    return max(moments)
