"""Activations: bytes that a token holds while gradients are computed.

In    a shape and a regime
Out   Widths: what a token holds for every layer, for the layer at work, at the head
Not   attention matrices (kernels that build none are taken for granted), padding

Eager figures are counts of the tensors that autograd keeps for a decoder of transformers,
one figure per width of the model. Compiled kernels fuse most of them; their one factor was
fitted to the eight published points of prime-rl with a chunked head (Qwen3-0.6B and 4B,
full and LoRA, 16k and 65k tokens), so on those it is in-sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from agentrl.memory.regime import Regime
from agentrl.memory.shape import Shape

COMPILED = 2.6
"""Compiled: what a layer at work holds, in units of its matrix products' inputs and outputs."""

_SCALARS = 80
"""Ids, labels, log-probs, weights and the like, of a token that is trained."""


@dataclass(frozen=True, slots=True)
class Widths:
    """Bytes a token."""

    kept: float
    """From forward to backward, for all layers together."""
    working: float
    """At the fullest moment of a layer's backward pass, beside what is kept."""
    final: float
    """Between the last layer and the head."""
    scalars: float = _SCALARS
    """Of a trained token, all the while."""


@dataclass(frozen=True, slots=True)
class _Counts:
    """Bytes a token by what they are proportional to."""

    hidden: int
    inner: int
    queries: int
    keys: int
    normed: int
    """More for each normalised query and key."""
    heads: int = 4
    """A softmax normaliser is float32."""

    def of(self, shape: Shape) -> int:
        queries, keys = shape.queries, shape.keys
        return (
            self.hidden * shape.hidden
            + self.inner * shape.intermediate
            + self.queries * queries
            + self.keys * keys
            + self.normed * (queries + keys) * shape.qk_norm
            + self.heads * shape.heads
        )


_SAVED: Mapping[tuple[int, bool], _Counts] = MappingProxyType(
    {
        (2, False): _Counts(hidden=16, inner=8, queries=6, keys=4, normed=6),
        (2, True): _Counts(hidden=28, inner=10, queries=8, keys=4, normed=4),
        (4, False): _Counts(hidden=24, inner=16, queries=12, keys=8, normed=8),
        (4, True): _Counts(hidden=16, inner=16, queries=12, keys=8, normed=4),
    }
)
"""(bytes of a number, frozen base) to what a layer keeps. A float32 adapter beside a
half-precision layer keeps a float32 copy of each of its inputs; what attention gives for each
row is kept once more where rows are joined, which fused kernels for packed rows avoid."""

_PASSING: Mapping[tuple[int, bool], tuple[int, int]] = MappingProxyType(
    {(2, False): (2, 4), (2, True): (16, 4), (4, False): (4, 8), (4, True): (8, 8)}
)
"""The same to what its backward pass holds beside that, per hidden and inner width."""

_FINAL: Mapping[tuple[int, bool], tuple[int, int]] = MappingProxyType(
    {(2, False): (6, 24), (2, True): (4, 24), (4, False): (8, 24), (4, True): (4, 24)}
)
"""The same to what the last norm keeps, and what its backward pass holds, per hidden width."""


def widths(shape: Shape, regime: Regime) -> Widths:
    """Count what a token holds."""
    kind = regime.width, regime.frozen
    hidden, inner = _PASSING[kind]
    at_head, after_head = (factor * shape.hidden for factor in _FINAL[kind])
    if regime.kernels == "compiled":
        layer, passing = _compiled(shape, regime), 0.0
        after_head = at_head
    else:
        layer = _SAVED[kind].of(shape) + regime.frozen * 28 * regime.lora_rank
        passing = float(hidden * shape.hidden + inner * shape.intermediate)
    stream = regime.width * shape.hidden
    if regime.checkpointing == "none":
        kept, working = shape.layers * layer, max(passing, after_head)
    else:
        kept = stream * (shape.layers if regime.checkpointing == "layers" else 2)
        working = max(layer + passing, after_head)
    return Widths(kept=kept, working=working, final=at_head)


def _compiled(shape: Shape, regime: Regime) -> float:
    products = 3 * shape.intermediate + 2 * (shape.hidden + shape.queries + shape.keys)
    return COMPILED * regime.width * products
