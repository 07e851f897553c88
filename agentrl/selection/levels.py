"""Few different rewards under a budget: the best counts, exactly.

In    a ladder with few levels, a quota and a budget
Out   the best counts, or every useful trade of tokens for Q
Not   ladders whose choices are too many to list: ask `choices` first

All counts of all levels but the largest are listed; the largest level takes what still
fits, because Q grows with each row. A row at the mean adds nothing and is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from agentrl.selection.found import Found, Quota
from agentrl.selection.ladder import Ladder
from agentrl.selection.objective import TIE, Floats, Ints, Mask
from agentrl.selection.rounding import rate
from agentrl.selection.trades import Trades, undominated


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """Choices, one an entry."""

    code: Ints
    """The counts as one number: the last level that was listed is the last digit."""
    size: Ints
    """Rows."""
    cost: Ints
    """Tokens."""
    mean: Floats
    """Mean of the rewards."""
    worth: Floats
    """Q."""

    def where(self, keep: Ints | Mask) -> States:
        """Some of them."""
        return States(
            self.code[keep], self.size[keep], self.cost[keep], self.mean[keep], self.worth[keep]
        )

    def plus(self, many: Ints, value: float, table: Ints) -> States:
        """With so many rows more of one reward in each."""
        size, away = self.size + many, value - self.mean
        part = many / np.maximum(size, 1)
        return States(
            self.code,
            size,
            self.cost + table[many],
            self.mean + part * away,
            self.worth + self.size * part * np.square(away),
        )


def choices(offer: Ladder, quota: Quota, *, whole: bool) -> float:
    """How many are listed: for every trade, or without the largest level."""
    digits = np.log(np.minimum(offer.sizes, quota.most) + 1.0)
    total = float(digits.sum()) - (0.0 if whole else float(digits.max(initial=0.0)))
    # The count of a large ladder overflows; no limit is that high.
    return math.exp(min(total, 700.0))


def trades(offer: Ladder, quota: Quota, budget: int) -> Trades:
    """Every trade within the budget, and none at all where nothing must be kept."""
    levels = list(range(offer.values.size))
    states = _listed(offer, quota, budget, levels)
    if quota.least:
        states = states.where((states.size >= quota.least) & (states.worth > 0))
    keep = undominated(states.cost, states.worth)
    counts = _decoded(offer, quota, levels, states.code[keep])
    return Trades(states.cost[keep], states.worth[keep], states.size[keep], counts)


def best(offer: Ladder, quota: Quota, budget: int) -> Found:
    """The counts of largest Q; of those the cheapest."""
    largest = int(np.argmax(offer.sizes))
    others = [level for level in range(offer.values.size) if level != largest]
    states = _listed(offer, quota, budget, others)
    table, value = offer.table(largest), float(offer.values[largest])
    fits = np.searchsorted(table, budget - states.cost, side="right") - 1
    fits = np.minimum(fits, quota.most - states.size)
    fill = np.where(_idle(states, fits, value), _owed(states, quota, fits), fits)
    filled = states.plus(fill, value, table)
    place = _pick(filled, quota)
    if place is None:
        return Found.nothing(offer)
    counts = np.zeros(offer.values.size, dtype=np.int64)
    counts[others] = _decoded(offer, quota, others, filled.code[[place]])[0]
    counts[largest] = fill[place]
    worth = float(offer.worth(counts))
    return Found(counts, worth, worth, rate(offer, counts, quota), "few rewards: exact")


def _idle(states: States, fits: Ints, value: float) -> Mask:
    """Where all the rows that fit would add nothing."""
    gain = states.size * fits / np.maximum(states.size + fits, 1)
    gain = gain * np.square(value - states.mean)
    idle: Mask = gain <= TIE * states.worth
    return idle


def _owed(states: States, quota: Quota, fits: Ints) -> Ints:
    """Rows that are missing to the least that must be kept."""
    owed: Ints = np.minimum(np.maximum(quota.least - states.size, 0), fits)
    return owed


def _pick(states: States, quota: Quota) -> int | None:
    """The first of the cheapest of the best; None where nothing has contrast."""
    worth = np.where(states.size >= quota.least, states.worth, 0.0)
    top = float(worth.max(initial=0.0))
    if top <= 0:
        return None
    ties = np.flatnonzero(worth >= top * (1 - TIE))
    return int(ties[np.argmin(states.cost[ties])])


def _listed(offer: Ladder, quota: Quota, budget: int, levels: list[int]) -> States:
    """All counts of some levels that fit."""
    zero = np.zeros(1, dtype=np.int64)
    states = States(zero, zero, zero, np.zeros(1), np.zeros(1))
    for level in levels:
        table = offer.table(level)[: quota.most + 1]
        size = (states.size[:, None] + np.arange(table.size)).ravel()
        cost = (states.cost[:, None] + table).ravel()
        fits = np.flatnonzero((size <= quota.most) & (cost <= budget))
        before, many = fits // table.size, fits % table.size
        states = states.where(before).plus(many, float(offer.values[level]), table)
        states = replace(states, code=states.code * table.size + many)
    return states


def _decoded(offer: Ladder, quota: Quota, levels: list[int], codes: Ints) -> Ints:
    """Counts of some levels, one choice a row."""
    if not levels:
        return np.zeros((codes.size, 0), dtype=np.int64)
    radix = [int(min(offer.sizes[level], quota.most)) + 1 for level in levels]
    return np.stack(np.unravel_index(codes, radix), axis=1).astype(np.int64)
