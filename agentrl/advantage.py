"""Advantages of the kept rows of one group.

In    the group's rewards, the kept rows, and which rewards mean and spread are taken of
Out   one number per kept row; exactly 0 where those rewards hold no contrast
Not   weights or a loss: several groups are normalised one by one, never together
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from agentrl.errors import UsageError, suggestion
from agentrl.selection.columns import listed, number, unusable
from agentrl.selection.objective import is_flat

SOFTENER = 1e-4
"""Added to the standard deviation, as the paper does."""


def advantages(
    rewards: Iterable[float | None],
    kept: Iterable[int],
    *,
    stats: str = "subset",
    scale: bool = True,
    valid: Iterable[bool] | None = None,
) -> tuple[float, ...]:
    """Reward less the mean, over the standard deviation (ddof 1) + 1e-4.

    Args:
        rewards: Of the whole group, in the order that `kept` counts in.
        kept: Rows that are trained on; advantages come back in this order.
        stats: Whose mean and deviation: "subset", the kept rows; "group", all usable ones.
        scale: Whether to divide by the deviation; False is Dr. GRPO's form.
        valid: Whether a row's reward may be compared; all may by default.
    """
    scores = [number(r, f"rewards[{i}]") for i, r in enumerate(listed(rewards, "rewards"))]
    usable = _usable(scores, valid)
    rows = [_row(row, usable, len(scores)) for row in kept]
    if stats not in STATS:
        raise UsageError(f"stats: {stats!r} is not one. {suggestion(stats, STATS, _CHOICES)}")
    basis = STATS[stats](usable, rows)
    if is_flat(basis):
        return (0.0,) * len(rows)
    # Less one of them first: the mean of large rewards that lie close would round.
    origin = sorted(basis)[len(basis) // 2]
    values = np.array(basis) - origin
    mean = values.mean()
    divisor = values.std(ddof=1) + SOFTENER if scale else 1.0
    return tuple(float((usable[row] - origin - mean) / divisor) for row in rows)


def _usable(scores: Sequence[float | None], valid: Iterable[bool] | None) -> dict[int, float]:
    """Row to reward, without the rows whose reward cannot be compared."""
    flags = [True] * len(scores) if valid is None else listed(valid, "valid")
    if len(flags) != len(scores):
        raise UsageError(f"valid: {len(flags)} values for {len(scores)} rewards. Give one a row.")
    return {
        row: score
        for row, (score, flag) in enumerate(zip(scores, flags, strict=True))
        if flag and score is not None and not unusable(score)
    }


def _row(row: int, usable: dict[int, float], size: int) -> int:
    """A kept row that has a reward."""
    if row in usable:
        return int(row)
    why = "its reward cannot be compared" if 0 <= row < size else f"there are {size} rows"
    raise UsageError(f"kept: row {row} has no advantage: {why}. Keep what `select` returns.")


def _of_subset(usable: dict[int, float], rows: Sequence[int]) -> list[float]:
    return [usable[row] for row in rows]


def _of_group(usable: dict[int, float], rows: Sequence[int]) -> list[float]:
    return list(usable.values())


STATS: dict[str, Callable[[dict[int, float], Sequence[int]], list[float]]] = {
    "subset": _of_subset,
    "group": _of_group,
}

_CHOICES = f"Known: {', '.join(STATS)}."
