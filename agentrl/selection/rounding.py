"""Whole choices near a relaxed one: trim to the budget, fill what is left, swap.

In    counts of a ladder, a quota, a budget, and a price for a token
Out   counts that fit and that no single row more, and no single swap, improves
Not   the best choice (branching.py looks for that), nor a bound
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentrl.selection.found import Quota
from agentrl.selection.ladder import Ladder
from agentrl.selection.objective import TIE, Floats, Ints

ROUNDS = 64
NEAR = 8
"""Rows looked at for a neighbour on either side."""
CORE = 64
"""Levels looked at for a swap on either side."""


@dataclass(slots=True)
class Draft:
    """A choice that is being changed."""

    offer: Ladder
    counts: Ints
    size: int
    total: float
    cost: int

    @classmethod
    def of(cls, offer: Ladder, counts: Ints) -> Draft:
        """A copy of counts."""
        total = float(counts @ offer.values)
        return cls(offer, counts.copy(), int(counts.sum()), total, int(offer.cost(counts)))

    def change(self, level: int, by: int) -> None:
        """One row more or less of a level."""
        first = int(self.offer.starts[level] + self.counts[level])
        step = self.offer.steps[first] if by > 0 else -self.offer.steps[first - 1]
        self.counts[level] += by
        self.size += by
        self.total += by * float(self.offer.values[level])
        self.cost += int(step)

    def away(self, levels: Ints) -> Floats:
        """How far levels lie from the mean."""
        result: Floats = self.offer.values[levels] - self.total / max(self.size, 1)
        return result

    def growing(self) -> tuple[Ints, Ints]:
        """Levels with a row left, and what it costs."""
        levels = np.flatnonzero(self.counts < self.offer.sizes)
        return levels, self.offer.steps[self.offer.starts[levels] + self.counts[levels]]

    def shrinking(self) -> tuple[Ints, Ints]:
        """Levels with a row taken, and what the last one cost."""
        levels = np.flatnonzero(self.counts)
        return levels, self.offer.steps[self.offer.starts[levels] + self.counts[levels] - 1]


def whole(offer: Ladder, counts: Ints, quota: Quota, budget: int, price: float) -> Ints | None:
    """Counts near these that fit; None where what is left does not."""
    draft = Draft.of(offer, counts)
    _trim(draft, quota, budget)
    for _ in range(ROUNDS):
        _fill(draft, quota, budget)
        if not _swap(draft, budget, price):
            break
    fits = draft.cost <= budget and quota.least <= draft.size <= quota.most
    return draft.counts if fits else None


def pair(offer: Ladder, budget: int) -> Ints | None:
    """The two rewards farthest apart that fit together, one row each."""
    first = offer.steps[offer.starts[:-1]]
    order = np.argsort(first, kind="stable")
    ranked = offer.values[order]
    mates = np.searchsorted(first[order], budget - first, side="right") - 1
    usable = np.flatnonzero(mates >= 0)
    if not usable.size:
        return None
    highest = np.maximum.accumulate(ranked)[mates[usable]]
    one = int(usable[np.argmax(highest - offer.values[usable])])
    apart = ranked[: mates[one] + 1] - offer.values[one]
    other = int(order[np.argmax(apart)])
    if offer.values[other] <= offer.values[one]:
        return None
    counts = np.zeros(offer.values.size, dtype=np.int64)
    counts[[one, other]] = 1
    return counts


def rate(offer: Ladder, counts: Ints, quota: Quota) -> float:
    """The most Q a token that one row more or one swap would bring, whatever fits."""
    size, ends = int(counts.sum()), offer.starts[:-1] + counts
    away = offer.values - float(counts @ offer.values) / max(size, 1)
    into = np.flatnonzero(counts < offer.sizes)
    x, costs = away[into], offer.steps[ends[into]]
    if size < quota.most:
        rates = size / (size + 1) * np.square(x) / np.maximum(costs, 1)
    else:
        out = np.flatnonzero(counts)
        y, extra = away[out][:, None], costs - offer.steps[ends[out] - 1][:, None]
        rates = (_rise(x, y, size) / np.maximum(extra, 1))[extra > 0]
    return float(rates.max(initial=0.0))


def cheapest(offer: Ladder, least: int) -> Ints | None:
    """So many rows, and two different rewards among them, for the fewest tokens."""
    levels = offer.levels
    order = np.argsort(offer.steps, kind="stable")[:least]
    counts = np.bincount(levels[order], minlength=offer.values.size)
    if np.count_nonzero(counts) == 1 < offer.values.size:
        first = np.where(counts > 0, np.iinfo(np.int64).max, offer.steps[offer.starts[:-1]])
        counts[levels[order[0]]] -= 1
        counts[int(np.argmin(first))] += 1
    return counts if order.size == least > 1 < offer.values.size else None


def _trim(draft: Draft, quota: Quota, budget: int) -> None:
    """Drop the row that is worth least a token until the rest fits."""
    while draft.cost > budget and draft.size > max(quota.least, 2):
        levels, saved = draft.shrinking()
        loss = np.square(draft.away(levels))
        draft.change(int(levels[np.argmin(loss / np.maximum(saved, 1))]), -1)


def _fill(draft: Draft, quota: Quota, budget: int) -> None:
    """Add the row that is worth most a token while one fits."""
    while draft.size < quota.most:
        levels, costs = draft.growing()
        fits = costs <= budget - draft.cost
        levels, costs = levels[fits], costs[fits]
        gain = np.square(draft.away(levels))
        useful = gain > TIE * float(gain.max(initial=0.0))
        if not levels.size or (not useful.any() and draft.size >= quota.least):
            return
        draft.change(int(levels[np.argmax(gain / np.maximum(costs, 1))]), 1)


def _swap(draft: Draft, budget: int, price: float) -> bool:
    """Exchange one row for another, for the largest rise of Q; whether any rises it."""
    out, saved = draft.shrinking()
    into, costs = draft.growing()
    out, saved = _nearest(out, saved, np.square(draft.away(out)) - price * saved)
    into, costs = _nearest(into, costs, price * costs - np.square(draft.away(into)))
    rise = _rise(draft.away(into), draft.away(out)[:, None], draft.size)
    rise[costs - saved[:, None] > budget - draft.cost] = -np.inf
    if not rise.size or rise.max() <= TIE * float(np.square(draft.away(out)).sum()):
        return False
    leave, enter = divmod(int(np.argmax(rise)), into.size)
    draft.change(int(out[leave]), -1)
    draft.change(int(into[enter]), 1)
    return True


def _rise(x: Floats, y: Floats, size: int) -> Floats:
    """What Q of so many rows rises by when one y from the mean leaves and one at x enters."""
    rise: Floats = np.square(x) - np.square(y) - np.square(x - y) / size
    return rise


def _nearest(levels: Ints, costs: Ints, key: Floats) -> tuple[Ints, Ints]:
    """The levels of smallest key."""
    if levels.size <= CORE:
        return levels, costs
    which = np.argpartition(key, CORE)[:CORE]
    return levels[which], costs[which]


def neighbours(offer: Ladder, counts: Ints) -> Ints:
    """Choices one row more, one row less, or one swap away, one a row."""
    draft = Draft.of(offer, counts)
    out, saved = draft.shrinking()
    into, costs = draft.growing()
    y, x = draft.away(out), draft.away(into)
    out = out[np.argsort(np.square(y) / np.maximum(saved, 1), kind="stable")[:NEAR]]
    into = into[np.argsort(-np.square(x) / np.maximum(costs, 1), kind="stable")[:NEAR]]
    less, more = np.meshgrid(np.append(out, -1), np.append(into, -1))
    table = np.repeat(counts[None], less.size, axis=0)
    for levels, by in ((less.ravel(), -1), (more.ravel(), 1)):
        real = np.flatnonzero(levels >= 0)
        table[real, levels[real]] += by
    return table
