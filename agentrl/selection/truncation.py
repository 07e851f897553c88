"""Truncation: what the reward of a trajectory that was cut off counts as.

In    rewards and which trajectories were truncated, one each a row
Out   rewards and validities as `select` takes them
Not   a choice of policy: to score keeps cut rows as they are, which over-selects them where
      they are the lowest; to mask hides them; to set zero makes them the lowest on purpose
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentrl.errors import UsageError, suggestion

Judged = tuple[float | None, bool]
"""A reward, and whether it may be compared."""


def judged(
    rewards: Sequence[float | None], truncated: Sequence[bool], policy: str
) -> tuple[list[float | None], list[bool]]:
    """Rewards and validities under a policy: score, mask or zero."""
    if policy not in POLICIES:
        hint = suggestion(policy, POLICIES, f"Known: {', '.join(POLICIES)}.")
        raise UsageError(f"truncated: {policy!r} is not one. {hint}")
    rows = [
        POLICIES[policy](reward) if cut else (reward, True)
        for reward, cut in zip(rewards, truncated, strict=True)
    ]
    return [reward for reward, _ in rows], [valid for _, valid in rows]


def _score(reward: float | None) -> Judged:
    return reward, True


def _mask(reward: float | None) -> Judged:
    return reward, False


def _zero(reward: float | None) -> Judged:
    return 0.0, True


POLICIES: dict[str, Callable[[float | None], Judged]] = {
    "score": _score,
    "mask": _mask,
    "zero": _zero,
}
