"""Realised: the rows that a choice stands for, and their weights.

In    pools, what was chosen of each, and the way equal rewards are told apart
Out   positions and weights
Not   a loss: weights are what rows count in its sum
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentrl.selection import padded
from agentrl.selection.ladder import Ladder
from agentrl.selection.objective import Floats, Ints, ascending_is_flat
from agentrl.selection.pool import Pool
from agentrl.selection.question import Question
from agentrl.selection.rules import cheapest
from agentrl.selection.sampling import Size, draw

Rows = tuple[Ints, Floats]
"""Positions and weights."""


def taken(pool: Pool, offer: Ladder, choice: Ints, question: Question) -> Rows:
    """All of weight 1."""
    if question.padded:
        order = cheapest(pool) if question.within == "cheapest" else pool.draw()
        positions = np.array(padded.taken(pool, choice, order), dtype=np.int64)
    else:
        positions = offer.taken(choice)
    return positions, np.ones(positions.size)


def contrast(pool: Pool, rows: Rows) -> Rows:
    """These rows, or none where their rewards differ by rounding only."""
    kept, weights = rows
    # Positions ascend with rewards.
    return (kept[:0], weights[:0]) if ascending_is_flat(pool.rewards[np.sort(kept)]) else rows


def drawn(pool: Pool, offer: Ladder, counts: Ints, size: Size) -> Rows:
    """Drawn by chance; a level's weights add up to its rows on average."""
    positions, chances, shares = draw(pool, offer, counts, size)
    return positions, shares / chances


def unbiased(
    pools: Sequence[Pool], offers: Sequence[Ladder], choices: Sequence[Ints], size: Size
) -> list[Rows]:
    """Drawn by chance; weighted so that the mean over kept rows is that over all, on average.

    With advantages of the full group, that is the gradient that all rows would give.
    """
    draws = [
        draw(pool, offer, counts, size)[:2]
        for pool, offer, counts in zip(pools, offers, choices, strict=True)
    ]
    kept = sum(positions.size for positions, _ in draws)
    share = kept / sum(len(pool) for pool in pools)
    return [(positions, share / np.maximum(chances, 1e-300)) for positions, chances in draws]
