"""Does an engine compute with the weights it was handed? Asked of its behaviour.

In    log-probs of one id sequence, the probe: by the learner, by the engine before and after
Out   nothing, or WeightSyncError with the figures
Not   a comparison of tensors: engines repack them, so that equal ones look different
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentrl.errors import WeightSyncError

LENGTH = 48
"""Ids of the probe."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far two right computations of one log-prob lie apart."""

    mean: float
    most: float
    still: float
    """A learner whose log-probs moved less than this may leave the engine's as they were."""


TOLERANCES = {
    "float32": Tolerance(mean=1e-3, most=1e-2, still=1e-5),
    "bfloat16": Tolerance(mean=0.15, most=1.5, still=1e-3),
}


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Log-probs of the probe under one version's weights."""

    version: int
    learner: Sequence[float]
    engine: Sequence[float]


def check(now: Fingerprint, before: Fingerprint | None, dtype: str) -> None:
    """The engine says what the learner says, and moved where the learner moved.

    Raises:
        WeightSyncError: it computes with other weights than those of `now.version`.
    """
    allowed = TOLERANCES[dtype]
    mean, most = distance(now.learner, now.engine)
    if not (mean <= allowed.mean and most <= allowed.most):
        raise WeightSyncError(
            f"engine vllm, weights of version {now.version}: its log-probs are not the "
            f"learner's: they differ by {mean:.2g} in the mean and {most:.2g} at most; "
            f"{allowed.mean:g} and {allowed.most:g} are allowed in {dtype}. "
            "It doesn't compute with these weights; nothing was sampled from it."
        )
    if before is None or now.engine != before.engine:
        return
    _, moved = distance(now.learner, before.learner)
    if moved > allowed.still:
        raise WeightSyncError(
            f"engine vllm, weights of version {now.version}: the learner's log-probs moved by "
            f"up to {moved:.2g} since version {before.version}, the engine's not at all. "
            "It still computes with the old weights; nothing was sampled from it."
        )


def distance(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Mean and largest difference."""
    apart = [abs(x - y) for x, y in zip(a, b, strict=True)]
    return sum(apart) / len(apart), max(apart)
