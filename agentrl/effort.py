"""Effort: what groups took beside the trajectories that they hold.

In    of each group its trajectories, and its Effort
Out   the part of a step's row about refills and episodes that were given up
Not   the tokens of the first tries of episodes that were played again
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from agentrl.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Effort:
    """What was played for a group and is not in it."""

    refilled: tuple[str, ...] = ()
    """What broke the episodes that were played again, one line a try."""
    given_up: tuple[int, ...] = ()
    """Tokens sampled in each episode that was begun and not needed."""

    def __add__(self, other: Effort) -> Effort:
        """The effort of both."""
        return Effort(self.refilled + other.refilled, self.given_up + other.given_up)


def rollout_part(
    played: Sequence[tuple[Sequence[Trajectory], Effort]],
) -> Mapping[str, float | None]:
    """Numbers under their names.

    `rollout/length_bias` is the mean of sampled tokens of the episodes that count over that of all
    that were begun. Those that were given up would have become longer still, so the true bias is
    at least as far below 1.
    """
    kept = [t.num_trained_tokens for trajectories, _ in played for t in trajectories]
    gone = [tokens for _, effort in played for tokens in effort.given_up]
    begun = fmean([*kept, *gone]) if kept or gone else 0.0
    return {
        "env/refills": sum(len(effort.refilled) for _, effort in played),
        "rollout/cancelled": len(gone),
        "rollout/length_bias": fmean(kept) / begun if kept and begun else None,
    }
