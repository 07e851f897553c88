"""Many groups under one budget: one price for a token everywhere.

In    bidders and a budget
Out   a choice for each, the bound, and the price
Not   equal shares: a group that brings little for its tokens gets little or nothing

At the right price each group takes what is worth its tokens to it, and together that just
meets the budget; the bound at that price holds for any choice. Groups with few different
rewards have all their trades listed. The others are relaxed to find the price, and offer
the whole choices near it. Then the best picks of all trades are searched for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from agentrl.selection import alone, price, rounding
from agentrl.selection.bidder import Bidder
from agentrl.selection.dual import Dual, Relaxed
from agentrl.selection.ladder import Ladder
from agentrl.selection.merging import merged
from agentrl.selection.objective import TIE, Ints
from agentrl.selection.shelf import Shelf
from agentrl.selection.trades import Trades, trades

WIDTH = 4096
"""Partial picks that a search keeps at a time."""
LAST = 7
"""Choices whose neighbours are offered too: of the last two prices, and one at the cap."""


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """What every group gets."""

    choices: list[Ints]
    """Counts of each ladder, or what a padded trade holds."""
    worth: float
    bound: float
    """No choice that was allowed has a larger Q."""
    hull: float
    """The bound at the price alone."""
    price: float
    method: str


@dataclass(slots=True, eq=False)
class Market:
    """Listed groups and relaxed ones, at any price."""

    shelf: Shelf
    dual: Dual
    seen: list[Relaxed] = field(default_factory=list)
    """What the relaxed ones took so far."""

    def at(self, at: float) -> price.Line[Ints]:
        """What all take together."""
        picks = self.shelf.at(at)
        worth, cost = self.shelf.totals(picks)
        if not self.dual.mu.size:
            return price.Line(worth, float(cost), picks)
        relaxed = self.dual.at(at)
        self.seen.append(relaxed)
        return price.Line(
            worth + float(relaxed.worth.sum()), cost + float(relaxed.cost.sum()), picks
        )


def share(bids: Sequence[Bidder], budget: int, width: int = WIDTH) -> Shared:
    """The largest Q of all together; what each is owed must fit."""
    grown = [row for row, bid in enumerate(bids) if bid.offer is not None]
    listed = [bid.menu for bid in bids if bid.offer is None]
    offers = [bid.offer for bid in bids if bid.offer is not None]
    capped = [
        alone.best(offer, bids[row].quota, bids[row].cap) if bids[row].cap < budget else None
        for offer, row in zip(offers, grown, strict=True)
    ]
    own = [0.0 if found is None else found.price for found in capped]
    bounds = [0.0 if found is None else found.bound for found in capped]
    quotas = [bids[row].quota for row in grown]
    market = Market(Shelf(listed), Dual(offers, quotas, own, bounds))
    least: price.Line[Ints] = price.Line(
        sum(float(bid.menu.worth[0]) for bid in bids),
        sum(int(bid.menu.cost[0]) for bid in bids),
        None,
    )
    priced = price.find(market.at, budget, least)
    menus = [bid.menu for bid in bids]
    for place, row in enumerate(grown):
        near = [side for seen in market.seen for side in alone.sides(offers[place], seen, place)]
        found = capped[place]
        menus[row] = _grown(
            bids[row], offers[place], near if found is None else [*near, found.counts]
        )
    shelf, picks, at, hull, lost = _picked(menus, budget, width)
    worth = shelf.totals(picks)[0]
    bound = priced.bound if grown else min(hull, max(worth, lost))
    exact = bound <= worth * (1 + TIE)
    return Shared(
        choices=[
            menu.choices[pick - start]
            for menu, pick, start in zip(menus, picks.tolist(), shelf.starts.tolist(), strict=True)
        ],
        worth=worth,
        bound=max(worth, bound),
        hull=priced.bound,
        price=priced.price if grown else at,
        method=f"one token price: {'exact' if exact else 'certified'}",
    )


def _picked(
    menus: Sequence[Trades], budget: int, width: int
) -> tuple[Shelf, Ints, float, float, float]:
    """The best of all trades, the price and bound, and what the search left out."""
    shelf = Shelf(menus)

    def at(price_: float) -> price.Line[Ints]:
        picks = shelf.at(price_)
        worth, cost = shelf.totals(picks)
        return price.Line(worth, cost, picks)

    first = shelf.starts
    worth, cost = shelf.totals(first)
    priced = price.find(at, budget, price.Line(worth, cost, first))
    under = priced.under.taken
    picks = shelf.filled(first if under is None else under, budget)
    picks, lost = merged(shelf, picks, priced.price, budget, width)
    return shelf, picks, priced.price, priced.bound, lost


def _grown(bid: Bidder, offer: Ladder, near: list[Ints]) -> Trades:
    """The whole choices that a relaxed group came by, and one row or one swap from the last."""
    last = [some for some in near[-LAST:] if some.any()]
    seeds = [rounding.pair(offer, bid.cap), rounding.cheapest(offer, 2)]
    last += [some for some in seeds if some is not None]
    tables = [bid.menu.choices, np.array(near)]
    tables += [rounding.neighbours(offer, some) for some in last]
    counts = np.concatenate(tables)
    size, cost = counts.sum(axis=1), offer.cost(counts)
    fits = (size >= bid.quota.least) & (size <= bid.quota.most) & (cost <= bid.cap)
    menu = trades(offer, counts[fits])
    return menu.where(menu.worth >= float(bid.menu.worth[0]) * (1 - TIE))
