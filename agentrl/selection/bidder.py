"""Bidder: one group that competes for a budget, and what it is owed whatever the price.

In    a ladder or all trades of a group, a quota, and what the group is owed in tokens
Out   a menu of trades, whole or to be grown at a price; what it is owed, or why it gets nothing
Not   a price: batch.py finds it
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from agentrl.selection import alone, levels, rounding
from agentrl.selection.found import Quota
from agentrl.selection.ladder import Ladder
from agentrl.selection.objective import TIE, Ints
from agentrl.selection.trades import Trades, trades


@dataclass(frozen=True, slots=True, eq=False)
class Bidder:
    """What one group may get."""

    menu: Trades
    """Its trades; the first is what it gets at any price."""
    offer: Ladder | None
    """Where the menu does not hold all trades, what it is grown from."""
    quota: Quota
    cap: int
    """Tokens at most."""


def bidder(offer: Ladder, quota: Quota, cap: int) -> Bidder:
    """A group that is owed nothing but the rows of its quota."""
    if levels.choices(offer, quota, whole=True) <= alone.LISTED:
        menu = levels.trades(offer, quota, cap)
        return Bidder(menu, None, quota, cap)
    counts = np.zeros((1, offer.values.size), dtype=np.int64)
    if quota.least:
        counts = _cheapest(offer, quota, cap)
    return Bidder(trades(offer, counts), offer, quota, cap)


def owing(bid: Bidder, tokens: int) -> Bidder:
    """The same, with a menu that begins where so many tokens of its own would bring it.

    A group that is owed rows gets at least those, whatever they cost.
    """
    if not len(bid.menu):
        return bid
    tokens = max(tokens, int(bid.menu.cost[0]))
    if bid.offer is None:
        own = int(np.searchsorted(bid.menu.cost, tokens, side="right")) - 1
        return replace(bid, menu=bid.menu.where(np.arange(len(bid.menu)) >= own))
    found = alone.best(bid.offer, bid.quota, min(tokens, bid.cap))
    if found.worth <= float(bid.menu.worth[0]) * (1 + TIE):
        return bid
    return replace(bid, menu=trades(bid.offer, found.counts[None]))


def _cheapest(offer: Ladder, quota: Quota, cap: int) -> Ints:
    """The cheapest choice of a quota, as the one row of a table; no row where none fits."""
    counts = rounding.cheapest(offer, max(quota.least, 2))
    if counts is None or offer.cost(counts) > cap or counts.sum() > quota.most:
        return np.zeros((0, offer.values.size), dtype=np.int64)
    return counts[None]
