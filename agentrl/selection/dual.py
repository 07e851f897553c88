"""The relaxed choice at a token price: how well groups could do, and what they would take.

In    ladders side by side, the least and most rows of each, and a price per token
Out   for each group a bound on Q less the price of its tokens, and rows that come near it
Not   a choice that fits a budget (price.py finds the price; rounding.py makes it whole)

For any mu, Q(S) <= sum over S of (r - mu)^2, with equality at the mean of S. So the most
that Q less the price of its tokens can be is at most

    min over mu of  max over S of  sum over S of (r - mu)^2 - price * cost

where the inner maximum simply takes the rows of largest (r - mu)^2 - price * cost. Every S
gives a parabola in mu that lies below the maximum. Two of them, on either side of the lowest
point, say where to look next; when nothing new comes up there, that is the lowest point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentrl.selection.found import Quota
from agentrl.selection.ladder import Ladder
from agentrl.selection.objective import Floats, Mask

ROUNDS = 60
CLOSE = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """For each group the rows that are best at some mu, and their parabola."""

    taken: Mask
    """One row a group, one column a step."""
    facts: Floats
    """Rows: mu, size, sum, sum of squares, tokens, one column a group."""

    def at(self, mu: Floats, price: Floats) -> Floats:
        """Sum of (r - mu)^2, less the price of the tokens."""
        _, size, total, squares, cost = self.facts
        height: Floats = squares + mu * (size * mu - 2 * total) - price * cost
        return height

    def where(self, which: Mask, other: Side) -> Side:
        """These groups of this one, the rest of the other."""
        taken = np.where(which[:, None], self.taken, other.taken)
        return Side(taken, np.where(which, self.facts, other.facts))


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """For each group a mixture of two sets of rows."""

    mu: Floats
    """The mean of the mixture."""
    sides: tuple[Side, Side]
    share: Floats
    """How much of the mixture is the first set."""
    worth: Floats
    """What the bound is before tokens are paid for: no less than the Q of the mixture."""
    cost: Floats
    """Tokens of the mixture; of a group that its cap holds back, those where it is worth most."""


class Dual:
    """Ladders side by side, as rectangles with empty places.

    A group with a cap of its own has a price of its own, at which the cap is met, and a bound
    on Q. At lower prices it takes no more than that: its Q is at most that bound, and at most
    what c tokens bring at its own price, and where the two meet it is worth most.
    """

    def __init__(
        self,
        offers: Sequence[Ladder],
        quotas: Sequence[Quota],
        own: Sequence[float] | None = None,
        bounds: Sequence[float] | None = None,
    ) -> None:
        """Lay the steps of each ladder in a row."""
        self.own = np.zeros(len(offers)) if own is None else np.array(own, dtype=np.float64)
        self.bounds = self.own if bounds is None else np.array(bounds, dtype=np.float64)
        shape = (len(offers), max((offer.steps.size for offer in offers), default=0))
        self.values, self.costs = np.zeros(shape), np.zeros(shape)
        self.empty = np.full(shape, -np.inf)
        for row, offer in enumerate(offers):
            width = offer.steps.size
            self.values[row, :width] = np.repeat(offer.values, offer.sizes)
            self.costs[row, :width] = offer.steps
            self.empty[row, :width] = 0.0
        self.squares = np.square(self.values)
        sizes = np.array([offer.steps.size for offer in offers])
        self.most = np.minimum([quota.most for quota in quotas], sizes)
        self.least = np.minimum([quota.least for quota in quotas], self.most)
        self.mu = np.zeros(len(offers))

    def at(self, price: float) -> Relaxed:
        """The relaxed choice of every group; looks first where the last one was."""
        prices = np.maximum(self.own, price)
        fresh = self.take(self.mu, prices)
        left = right = fresh
        mu, height = self.mu, np.zeros(self.mu.size)
        seen_left = seen_right = np.zeros(self.mu.size, dtype=np.bool_)
        for _ in range(ROUNDS):
            rises = fresh.facts[1] * fresh.facts[0] >= fresh.facts[2]
            seen_left, seen_right = seen_left | ~rises, seen_right | rises
            left = fresh.where(~rises | ~seen_left, left)
            right = fresh.where(rises | ~seen_right, right)
            mu = _lowest(left, right, prices)
            fresh = self.take(mu, prices)
            model = np.maximum(left.at(mu, prices), right.at(mu, prices))
            height = fresh.at(mu, prices)
            if (height <= model + CLOSE * np.abs(height)).all():
                break
        self.mu = mu
        share, held = _share(mu, left, right), prices > price
        cost = share * left.facts[4] + (1 - share) * right.facts[4]
        meet = np.maximum(self.bounds - height, 0.0) / np.where(held, prices, 1.0)
        worth = np.where(held, self.bounds, height + prices * cost)
        return Relaxed(mu, (left, right), share, worth, np.where(held, meet, cost))

    def take(self, mu: Floats, prices: Floats) -> Side:
        """The best rows of each group at its own mu and price."""
        net = np.square(self.values - mu[:, None]) + self.empty - prices[:, None] * self.costs
        taken = net > 0
        size = np.count_nonzero(taken, axis=1)
        for row in np.flatnonzero((size > self.most) | (size < self.least)).tolist():
            count = self.most[row] if size[row] > self.most[row] else self.least[row]
            taken[row] = _largest(net[row], int(count))
        weight = taken.astype(np.float64)
        facts = np.stack(
            (
                mu,
                weight.sum(axis=1),
                np.einsum("gn,gn->g", weight, self.values),
                np.einsum("gn,gn->g", weight, self.squares),
                np.einsum("gn,gn->g", weight, self.costs),
            )
        )
        return Side(taken, facts)


def _largest(values: Floats, count: int) -> Mask:
    """The places of the largest few; the first of equal ones."""
    if not count:
        return np.zeros(values.size, dtype=np.bool_)
    bar = np.partition(values, values.size - count)[values.size - count]
    taken: Mask = values > bar
    ties = np.flatnonzero(values == bar)
    taken[ties[: count - np.count_nonzero(taken)]] = True
    return taken


def _lowest(left: Side, right: Side, price: Floats) -> Floats:
    """Where the higher of two parabolas is lowest, between their sides."""
    low, high = left.facts[0], right.facts[0]
    mean_left, mean_right = _mean(left), _mean(right)
    meet = np.clip(_crossing(left, right, price), low, high)
    lowest = np.where(mean_left < meet, mean_left, np.where(mean_right > meet, mean_right, meet))
    return np.where(low == high, mean_left, lowest)


def _mean(side: Side) -> Floats:
    """Where a parabola is lowest; anywhere for an empty set."""
    mu, size, total, _, _ = side.facts
    return np.where(size > 0, total / np.maximum(size, 1), mu)


def _crossing(left: Side, right: Side, price: Floats) -> Floats:
    """Where the left parabola falls below the right one."""
    _, a, b, squares, cost = left.facts - right.facts
    c = squares - price * cost
    root = np.sqrt(np.maximum(b * b - a * c, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = np.where(b >= 0, c / (b + root), (b - root) / a)
    return np.where(np.isfinite(meet), meet, (left.facts[0] + right.facts[0]) / 2)


def _share(mu: Floats, left: Side, right: Side) -> Floats:
    """How much of the left set makes mu the mean of a mixture of both."""
    down = left.facts[2] - left.facts[1] * mu
    up = right.facts[1] * mu - right.facts[2]
    whole = down + up
    return np.clip(np.where(whole > 0, up / np.where(whole > 0, whole, 1.0), 1.0), 0.0, 1.0)
