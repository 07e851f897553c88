"""A few episodes first: whether the rest of a group is worth playing.

In    rewards of the pilot that can be compared, how many episodes the rest has
Out   go on, stop, or undecided, which goes on too; which stopped ones are played to see
Not   binary rewards only: all that counts is whether a reward differs from the pilot's common one

Say θ is the chance that an episode's reward is another than that of a pilot of k equal ones. With
Jeffreys' prior for θ, Beta(1/2, 1/2), the chance that r more are all equal to them is

    product over i < r of (k + i + 1/2) / (k + i + 1)   ~   sqrt((k + 1/2) / (k + r + 1/2))

A pilot stops its group where that is at least the certainty asked for. Else it is undecided: it
was too short, or too many of its episodes broke.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from agentrl.selection.objective import is_flat

STREAM = 19
"""Keeps these draws apart from every other use of the run's seed."""

Verdict = Literal["spread", "undecided", "flat"]


def flat_chance(equal: int, rest: int) -> float:
    """Chance that `rest` more episodes bring no other reward than `equal` before them did."""
    if equal < 1:
        return 0.0
    lost = math.lgamma(equal + rest + 0.5) - math.lgamma(equal + 0.5)
    return math.exp(lost - math.lgamma(equal + rest + 1) + math.lgamma(equal + 1))


def verdict(rewards: Sequence[float], rest: int, certainty: float) -> Verdict:
    """What a pilot with these comparable rewards says of the rest."""
    if not is_flat(rewards):
        return "spread"
    decided = len(rewards) > 1 and flat_chance(len(rewards), rest) >= certainty
    return "flat" if decided else "undecided"


def shortest(n: int, certainty: float) -> int | None:
    """Fewest episodes of a pilot that can stop a group of n; None where none can."""
    fits = (k for k in range(2, n) if flat_chance(k, n - k) >= certainty)
    return next(fits, None)


def audited(share: float, *, seed: int, step: int, task: str) -> bool:
    """Whether a stopped group is played in full to see what stopping would have lost."""
    drawn = np.random.default_rng([seed, STREAM, step, int(task[:16], 16)]).random()
    return bool(drawn < share)
