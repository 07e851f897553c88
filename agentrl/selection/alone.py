"""One group under a budget: the cheapest method that is exact, else one with a certificate.

In    a ladder, a quota, a budget, and how wide a search may grow
Out   counts, their Q, a bound on what was possible, and the price of a token
Not   a group that competes with others for the budget (batch.py)

Two rewards or few: their counts are listed. Else the relaxed choice gives the price and the
bound, rounding gives a choice, and branch and bound closes what lies between.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from agentrl.selection import binary, branching, levels, price, rounding
from agentrl.selection.dual import Dual, Relaxed
from agentrl.selection.found import Found, Quota
from agentrl.selection.ladder import Ladder
from agentrl.selection.objective import TIE, Ints
from agentrl.selection.ranking import cuts

LISTED = 20_000
"""Choices that are listed rather than searched."""
WIDTH = 4096
"""Partial choices that a search keeps at a time."""
SPREAD = 9
"""Means that bounds are taken at, across all that could be better."""
PRICES = np.array([0.7, 1.0, 1.4])
"""Prices that bounds are taken at, in units of the price."""
CLOSE = 1e-9
"""A count this close to a whole number is one."""
GROWN = 256
"""Rows of a group that choices of two rows are grown in; in larger ones the relaxed is near."""
SEARCHED = 4096
"""Rows of a group that is searched; larger ones lose next to nothing by rounding."""


def best(offer: Ladder, quota: Quota, budget: int, width: int = WIDTH) -> Found:
    """The choice of largest Q."""
    if offer.values.size < 2 or min(quota.most, offer.steps.size) < max(quota.least, 2):
        return Found.nothing(offer)
    if offer.steps.min() == offer.steps.max():
        return _equal(offer, quota, budget)
    if offer.values.size == 2:
        return binary.best(offer, quota, budget)
    if levels.choices(offer, quota, whole=False) <= LISTED:
        return levels.best(offer, quota, budget)
    return general(offer, quota, budget, width)


def _equal(offer: Ladder, quota: Quota, budget: int) -> Found:
    """Where all rows cost the same, a budget is a number of rows."""
    cost = max(int(offer.steps[0]), 1)
    values = np.repeat(offer.values, offer.sizes)
    rows = min(quota.most, values.size, budget // cost if offer.steps[0] else values.size)
    if rows < max(quota.least, 2):
        return Found.nothing(offer)
    low, worth = cuts(values, rows)
    places = np.arange(values.size)
    kept = (places < low[0]) | (places >= values.size - (rows - low[0]))
    counts = np.add.reduceat(kept, offer.starts[:-1], dtype=np.int64)
    return Found(counts, worth, worth, rounding.rate(offer, counts, quota), "equal costs: exact")


def general(offer: Ladder, quota: Quota, budget: int, width: int = WIDTH) -> Found:
    """Relax, round, search; with width 0 no search. Of equal Q not always the fewest tokens."""
    dual = Dual([offer], [quota])
    starts = list(_starts(offer, quota, budget))
    least = _cheapest(offer, starts)
    if least is None:
        return Found.nothing(offer)
    priced = price.find(lambda at: _line(dual, at), budget, least)
    near = [side for line in (priced.over, priced.under) for side in _sides(offer, line.taken)]
    if offer.steps.size <= GROWN:
        near += starts
    rounded = [rounding.whole(offer, some, quota, budget, priced.price) for some in near]
    starts += [some for some in rounded if some is not None]
    counts = max(starts, key=lambda some: float(offer.worth(some)))
    worth, bound, method = float(offer.worth(counts)), priced.bound, "token price: certified"
    if width and worth < bound * (1 - TIE) and offer.steps.size <= SEARCHED:
        limits = _multipliers(offer, quota, budget, worth, priced, dual)
        counts, lost = branching.search(offer, quota, budget, counts, limits, width)
        worth = float(offer.worth(counts))
        bound, method = min(bound, max(worth, lost)), "branch and bound: certified"
    if bound <= worth * (1 + TIE):
        method = method.replace("certified", "exact")
    return Found(counts, worth, max(worth, bound), priced.price, method)


def sides(offer: Ladder, relaxed: Relaxed, row: int) -> list[Ints]:
    """The whole choices that a relaxed one mixes, and the mixture rounded down."""
    taken = [side.taken[row, : offer.steps.size] for side in relaxed.sides]
    left, right = (np.add.reduceat(one, offer.starts[:-1], dtype=np.int64) for one in taken)
    share = float(relaxed.share[row])
    return [left, right, np.floor(share * left + (1 - share) * right + CLOSE).astype(np.int64)]


def _sides(offer: Ladder, relaxed: Relaxed | None) -> list[Ints]:
    """The same of the first group; none where nothing was taken."""
    return [] if relaxed is None else sides(offer, relaxed, 0)


def _starts(offer: Ladder, quota: Quota, budget: int) -> Iterator[Ints]:
    """Choices that fit whatever the price."""
    for counts in (rounding.pair(offer, budget), rounding.cheapest(offer, max(quota.least, 2))):
        if counts is not None and offer.cost(counts) <= budget and counts.sum() >= quota.least:
            yield counts


def _cheapest(offer: Ladder, starts: list[Ints]) -> price.Line[Relaxed] | None:
    """The one of fewest tokens, as a line."""
    if not starts:
        return None
    counts = min(starts, key=lambda some: int(offer.cost(some)))
    return price.Line(float(offer.worth(counts)), float(offer.cost(counts)), None)


def _line(dual: Dual, at: float) -> price.Line[Relaxed]:
    """What is taken at a price."""
    relaxed = dual.at(at)
    return price.Line(float(relaxed.worth.sum()), float(relaxed.cost.sum()), relaxed)


def _multipliers(
    offer: Ladder,
    quota: Quota,
    budget: int,
    worth: float,
    priced: price.Priced[Relaxed],
    dual: Dual,
) -> branching.Multipliers:
    """Bounds at every mean that a better choice could have.

    A choice of k rows whose mean lies d from the relaxed one's is worth at most the bound
    less k d^2; and k rows within a range R are worth at most k R^2 / 4.
    """
    width = float(offer.values[-1] - offer.values[0])
    rows = max(2.0, 4 * worth / width**2)
    reach = np.sqrt(max(priced.bound - worth, 0.0) / rows)
    mu = float(dual.mu[0]) + reach * np.linspace(-1, 1, SPREAD)
    mus, prices = np.meshgrid(mu, PRICES * priced.price)
    return branching.multipliers(offer, quota, budget, mus.ravel(), prices.ravel())
