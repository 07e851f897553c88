"""Trades: what a group could keep, each dearer one worth more.

In    choices of a group with what they cost and are worth
Out   those that no other choice beats, cheapest first
Not   one of them: batch.py weighs the trades of many groups against each other
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentrl.selection.ladder import Ladder
from agentrl.selection.objective import TIE, Floats, Ints, Mask


@dataclass(frozen=True, slots=True, eq=False)
class Trades:
    """Choices of one group by rising cost and rising worth."""

    cost: Ints
    worth: Floats
    size: Ints
    """Rows of each."""
    choices: Ints
    """What each stands for, one row a choice: a ladder's counts, or a padded choice."""

    def __len__(self) -> int:
        """How many there are."""
        return self.cost.size

    def where(self, keep: Mask) -> Trades:
        """Some of them."""
        return Trades(self.cost[keep], self.worth[keep], self.size[keep], self.choices[keep])


def undominated(cost: Ints, worth: Floats) -> Ints:
    """Places of the choices that are worth more than every cheaper one, cheapest first."""
    order = np.argsort(cost, kind="stable")
    ranked = worth[order]
    better = np.ones(order.size, dtype=np.bool_)
    better[1:] = ranked[1:] > np.maximum.accumulate(ranked)[:-1] * (1 + TIE)
    order = order[better]
    last = np.ones(order.size, dtype=np.bool_)
    last[:-1] = cost[order[1:]] > cost[order[:-1]]
    return order[last]


def trades(offer: Ladder, counts: Ints) -> Trades:
    """The undominated ones of some choices, one a row."""
    cost, worth = offer.cost(counts), offer.worth(counts)
    keep = undominated(cost, worth)
    return Trades(cost[keep], worth[keep], counts[keep].sum(axis=1), counts[keep])
