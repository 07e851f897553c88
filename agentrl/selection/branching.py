"""Branch and bound: the best choice, or a better bound where there are too many.

In    a ladder, a quota, a budget, a choice to beat and multipliers near the relaxed choice
Out   the best counts and a bound: equal where the search was complete
Not   a promise to be complete: no more than `width` partial choices are kept at a time, and
      few after a number of them

For any mu and any prices of a token (lam >= 0) and of a place (nu >= 0), Q(S) is at most

    lam * budget + nu * most + sum over S of (r - mu)^2 - lam * cost - nu

and each level adds at most its best prefix. A count of a level that brings every choice below
the one to beat is out. What remains is decided level by level, for all partial choices at once;
the bound of a partial choice is linear in its size, cost, sum and sum of squares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentrl.selection.found import Quota
from agentrl.selection.ladder import Ladder
from agentrl.selection.objective import TIE, Floats, Ints

CELLS = 500_000
"""Partial choices that are looked at in one step."""
NODES = 250_000
"""Partial choices that are looked at before the search goes on with few."""
NARROW = 64
"""How many that is."""


@dataclass(frozen=True, slots=True, eq=False)
class Multipliers:
    """Bounds side by side."""

    mu: Floats
    lam: Floats
    nu: Floats
    fixed: Floats
    """What a bound holds besides what rows add."""

    @property
    def weights(self) -> Floats:
        """What size, cost, sum and sum of squares count, one column a bound."""
        one = np.ones(self.mu.size)
        return np.stack((np.square(self.mu) - self.nu, -self.lam, -2 * self.mu, one))


@dataclass(frozen=True, slots=True, eq=False)
class Core:
    """What is left to decide."""

    levels: list[int]
    """Levels with more than one count that is possible, the clearest first."""
    options: list[Ints]
    """Counts that are possible, of every level."""
    top: Floats
    """The most that a level adds, one row a bound and one column a level."""


@dataclass(slots=True)
class Best:
    """The best choice so far."""

    worth: float
    cost: float
    stage: int
    """Levels of the core that were decided when it was found; -1 for the one to beat."""
    row: int
    """Which partial choice of that stage it is; the other levels have none."""


def multipliers(offer: Ladder, quota: Quota, budget: int, mu: Floats, lam: Floats) -> Multipliers:
    """For each pair of mu and lam the best nu."""
    places = min(quota.most, offer.steps.size)
    values = np.repeat(offer.values, offer.sizes)
    net = np.square(values - mu[:, None]) - lam[:, None] * offer.steps
    net = np.partition(net, net.shape[1] - places, axis=1)
    last = net[:, net.shape[1] - places]
    nu = np.maximum(last, 0.0)
    if quota.least:
        owed = np.partition(net, net.shape[1] - quota.least, axis=1)[:, -quota.least]
        nu = np.where(owed < 0, owed, nu)
    fixed = lam * budget + nu * np.where(nu >= 0, places, quota.least)
    return Multipliers(mu, lam, nu, fixed)


def search(
    offer: Ladder, quota: Quota, budget: int, start: Ints, bounds: Multipliers, width: int
) -> tuple[Ints, float]:
    """Counts no worse than `start`, and a bound on what any choice is worth."""
    core = _core(offer, quota, start, bounds)
    base = np.array([0 if many.size > 1 else many[0] for many in core.options], dtype=np.int64)
    best = Best(float(offer.worth(start)), float(offer.cost(start)), -1, 0)
    sums, weights = _sums(offer, base), bounds.weights
    rest = bounds.fixed + core.top[:, core.levels].sum(axis=1)
    trail: list[tuple[Ints, Ints]] = []
    height, lost, nodes = np.full(1, np.inf), 0.0, 0
    if sums[0, 0] <= quota.most and sums[0, 1] <= budget:
        _beat(best, sums, quota, 0)
    for level in core.levels:
        many, rest = core.options[level], rest - core.top[:, level]
        rows, height, lost = _widest(height, max(1, CELLS // many.size), lost)
        grown, parent, count = _branched(sums[rows], offer, level, many, quota, budget)
        nodes += count.size
        height = (grown @ weights + rest).min(axis=1)
        alive = np.flatnonzero(height >= best.worth * (1 - TIE))
        keep, height, lost = _widest(height[alive], width if nodes < NODES else NARROW, lost)
        keep = alive[keep]
        sums = grown[keep]
        trail.append((rows[parent[keep]], count[keep]))
        _beat(best, sums, quota, len(trail))
        if not keep.size:
            break
    counts = start if best.stage < 0 else _traced(base, core.levels, trail[: best.stage], best.row)
    return counts, lost


def _widest(height: Floats, width: int, lost: float) -> tuple[Ints, Floats, float]:
    """Places of the highest few, in order, their heights, and the height of the rest."""
    if height.size <= width:
        return np.arange(height.size), height, lost
    order = np.argpartition(-height, width)
    keep = np.sort(order[:width])
    return keep, height[keep], max(lost, float(height[order[width:]].max()))


def _core(offer: Ladder, quota: Quota, start: Ints, bounds: Multipliers) -> Core:
    """Leave out every count that brings all choices below the one to beat."""
    net = np.square(np.repeat(offer.values, offer.sizes) - bounds.mu[:, None])
    net -= bounds.lam[:, None] * offer.steps + bounds.nu[:, None]
    running = np.concatenate((np.zeros((bounds.mu.size, 1)), np.cumsum(net, axis=1)), axis=1)
    first, size = offer.starts[:-1], offer.sizes
    begin = first + np.arange(size.size)
    level = np.repeat(np.arange(size.size), size + 1)
    many = np.arange(level.size) - begin[level]
    rise = running[:, first[level] + many] - running[:, first[level]]
    top = np.maximum.reduceat(rise, begin, axis=1)
    slack = ((bounds.fixed + top.sum(axis=1))[:, None] - top[:, level] + rise).min(axis=0)
    alive = (slack >= float(offer.worth(start)) * (1 - TIE)) & (many <= quota.most)
    alive[begin + start] = True
    options = np.split(many[alive], np.cumsum(np.add.reduceat(alive, begin, dtype=np.int64))[:-1])
    slack[begin + start] = -np.inf
    second = np.maximum.reduceat(slack, begin)
    order: list[int] = np.argsort(second, kind="stable").tolist()
    return Core([one for one in order if options[one].size > 1], options, top)


def _sums(offer: Ladder, counts: Ints) -> Floats:
    """Size, cost, sum and sum of squares of one choice, as a row."""
    total, squares = counts @ offer.values, counts @ np.square(offer.values)
    return np.array([[counts.sum(), offer.cost(counts), total, squares]], dtype=np.float64)


def _branched(
    sums: Floats, offer: Ladder, level: int, many: Ints, quota: Quota, budget: int
) -> tuple[Floats, Ints, Ints]:
    """Every partial choice with every count of one level more, where it fits."""
    value = float(offer.values[level])
    step = np.stack((many, offer.table(level)[many], many * value, many * value**2), axis=1)
    grown = (sums[:, None, :] + step).reshape(-1, 4)
    fits = np.flatnonzero((grown[:, 0] <= quota.most) & (grown[:, 1] <= budget))
    return grown[fits], fits // many.size, many[fits % many.size]


def _beat(best: Best, sums: Floats, quota: Quota, stage: int) -> None:
    """Keep the best of a stage where it is better, or as good and cheaper."""
    size, cost, total, squares = sums.T
    worth = squares - np.square(total) / np.maximum(size, 1)
    worth = np.where((size >= quota.least) & (worth > TIE * squares), worth, 0.0)
    top = float(worth.max(initial=0.0))
    if top < best.worth * (1 - TIE) or top <= 0:
        return
    ties = np.flatnonzero(worth >= top * (1 - TIE))
    row = int(ties[np.argmin(cost[ties])])
    if top > best.worth * (1 + TIE) or cost[row] < best.cost:
        best.worth, best.cost, best.stage, best.row = top, float(cost[row]), stage, row


def _traced(base: Ints, levels: list[int], trail: list[tuple[Ints, Ints]], row: int) -> Ints:
    """The counts of a partial choice."""
    counts = base.copy()
    for level, (parent, count) in zip(reversed(levels[: len(trail)]), reversed(trail), strict=True):
        counts[level] = count[row]
        row = int(parent[row])
    return counts
