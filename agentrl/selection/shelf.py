"""Shelf: the trades of many groups side by side, one of each to be picked.

In    trades of each group, and a price or a budget
Out   for each group the place of a trade on the shelf
Not   rows: a place stands for a choice of its group
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentrl.selection.objective import TIE, Floats, Ints
from agentrl.selection.trades import Trades


class Shelf:
    """All trades in one row, group by group."""

    def __init__(self, menus: Sequence[Trades]) -> None:
        """Lay them side by side."""
        sizes = np.array([len(menu) for menu in menus], dtype=np.int64)
        self.starts = np.cumsum(sizes) - sizes
        self.group = np.repeat(np.arange(sizes.size), sizes)
        self.cost = np.concatenate([np.zeros(0, np.int64), *(menu.cost for menu in menus)])
        self.worth = np.concatenate([np.zeros(0), *(menu.worth for menu in menus)])

    def net(self, price: float) -> tuple[Floats, Floats]:
        """What each trade is worth after paying for its tokens, and the most of each group."""
        if not self.starts.size:
            return self.worth, self.worth
        net = self.worth - price * self.cost
        return net, np.maximum.reduceat(net, self.starts)

    def at(self, price: float) -> Ints:
        """The trade worth most after paying for its tokens, the cheapest of equals."""
        net, top = self.net(price)
        near = np.flatnonzero(net >= (top - TIE * np.abs(top))[self.group])
        return near[np.searchsorted(self.group[near], np.arange(self.starts.size))]

    def totals(self, picks: Ints) -> tuple[float, int]:
        """Q and tokens of picks."""
        return float(self.worth[picks].sum()), int(self.cost[picks].sum())

    def filled(self, picks: Ints, budget: int) -> Ints:
        """Spend what is left on the largest rise of Q that fits, again and again."""
        picks = picks.copy()
        while picks.size:
            left = budget - int(self.cost[picks].sum())
            extra = self.cost - self.cost[picks][self.group]
            gain = np.where(extra <= left, self.worth - self.worth[picks][self.group], 0.0)
            place = int(np.argmax(gain))
            if gain[place] <= 0:
                break
            picks[self.group[place]] = place
        return picks
