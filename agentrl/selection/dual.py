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

    def at(self, mu: Floats, price: float) -> Floats:
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
    worth: Floats
    """Q of the mixture."""
    cost: Floats
    """Tokens of the mixture."""


class Dual:
    """Ladders side by side, as rectangles with empty places."""

    def __init__(self, offers: Sequence[Ladder], quotas: Sequence[Quota]) -> None:
        """Lay the steps of each ladder in a row."""
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
        fresh = self.take(self.mu, price)
        left = right = fresh
        mu = self.mu
        seen_left = seen_right = np.zeros(self.mu.size, dtype=np.bool_)
        for _ in range(ROUNDS):
            rises = fresh.facts[1] * fresh.facts[0] >= fresh.facts[2]
            seen_left, seen_right = seen_left | ~rises, seen_right | rises
            left = fresh.where(~rises | ~seen_left, left)
            right = fresh.where(rises | ~seen_right, right)
            mu = _lowest(left, right, price)
            fresh = self.take(mu, price)
            model = np.maximum(left.at(mu, price), right.at(mu, price))
            height = fresh.at(mu, price)
            if (height <= model + CLOSE * np.abs(height)).all():
                break
        self.mu = mu
        return _mixed(mu, left, right)

    def take(self, mu: Floats, price: float) -> Side:
        """The best rows of each group at its own mu."""
        net = np.square(self.values - mu[:, None]) + self.empty - price * self.costs
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


def _lowest(left: Side, right: Side, price: float) -> Floats:
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


def _crossing(left: Side, right: Side, price: float) -> Floats:
    """Where the left parabola falls below the right one."""
    _, a, b, squares, cost = left.facts - right.facts
    c = squares - price * cost
    root = np.sqrt(np.maximum(b * b - a * c, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = np.where(b >= 0, c / (b + root), (b - root) / a)
    return np.where(np.isfinite(meet), meet, (left.facts[0] + right.facts[0]) / 2)


def _mixed(mu: Floats, left: Side, right: Side) -> Relaxed:
    """Mix two sets so that mu is the mean of the mixture."""
    down = left.facts[2] - left.facts[1] * mu
    up = right.facts[1] * mu - right.facts[2]
    whole = down + up
    share = np.clip(np.where(whole > 0, up / np.where(whole > 0, whole, 1.0), 1.0), 0.0, 1.0)
    worth = share * left.at(mu, 0.0) + (1 - share) * right.at(mu, 0.0)
    cost = share * left.facts[4] + (1 - share) * right.facts[4]
    return Relaxed(mu, (left, right), worth, cost)
