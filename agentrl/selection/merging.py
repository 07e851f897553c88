"""The best picks of a shelf: groups are added one by one to all that could still be best.

In    a shelf, picks within the budget, and the price at which the budget is met
Out   picks no worse, and the largest Q that picks left out on the way could have had
Not   a promise to be complete: no more than `width` partial picks are kept at a time

At the price a trade that is not its group's best loses something, and picks that lose more
than the given ones lie below the bound cannot be better. Few trades of few groups are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentrl.selection.objective import TIE, Floats, Ints
from agentrl.selection.shelf import Shelf
from agentrl.selection.trades import undominated


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One group that is added."""

    group: int
    places: Ints
    """Its trades that may be in better picks."""
    cost_after: int
    """The fewest tokens of the groups that come later."""
    net_after: float
    """The most that those are worth after paying for their tokens."""


def merged(shelf: Shelf, picks: Ints, price: float, budget: int, width: int) -> tuple[Ints, float]:
    """Picks no worse than these; of equal ones the cheapest."""
    floor = shelf.totals(picks)[0] * (1 - TIE)
    costs, worths, lost = np.zeros(1, dtype=np.int64), np.zeros(1), 0.0
    trail: list[tuple[Ints, Ints]] = []
    steps = _steps(shelf, picks, price, budget)
    for step in steps:
        costs = (costs[:, None] + shelf.cost[step.places]).ravel()
        worths = (worths[:, None] + shelf.worth[step.places]).ravel()
        height = worths + price * (budget - costs) + step.net_after
        keep = np.flatnonzero((costs + step.cost_after <= budget) & (height >= floor))
        keep = keep[undominated(costs[keep], worths[keep])]
        if keep.size > width:
            order = np.argpartition(-height[keep], width)
            lost = max(lost, float(height[keep[order[width:]]].max()))
            keep = np.sort(keep[order[:width]])
        costs, worths = costs[keep], worths[keep]
        trail.append((keep // step.places.size, step.places[keep % step.places.size]))
    if not worths.size or worths[-1] < floor:
        return picks, lost
    # What is left is undominated: worth rises with cost, and the last is the best.
    return _traced(picks, steps, trail, worths.size - 1), lost


def _steps(shelf: Shelf, picks: Ints, price: float, budget: int) -> list[Step]:
    """Groups in order, the clearest first, with what comes later."""
    net, top = shelf.net(price)
    behind = top[shelf.group] - net
    room = float(top.sum()) + price * budget - shelf.totals(picks)[0] * (1 - TIE)
    alive = behind <= max(room, 0.0)
    alive[picks] = True
    ends = np.cumsum(np.bincount(shelf.group[alive]))[:-1]
    places = np.split(np.flatnonzero(alive), ends)
    order = np.argsort([-_second(behind[some]) for some in places], kind="stable").tolist()
    cost_after, net_after = sum(int(shelf.cost[some].min()) for some in places), float(top.sum())
    steps = []
    for group in order:
        cost_after -= int(shelf.cost[places[group]].min())
        net_after -= float(top[group])
        steps.append(Step(group, places[group], cost_after, net_after))
    return steps


def _second(behind: Floats) -> float:
    """How much the second best loses."""
    return float(np.partition(behind, 1)[1]) if behind.size > 1 else np.inf


def _traced(
    picks: Ints, steps: Sequence[Step], trail: Sequence[tuple[Ints, Ints]], row: int
) -> Ints:
    """The picks of one of the last partial picks."""
    found = picks.copy()
    for step, (parent, place) in zip(reversed(steps), reversed(trail), strict=True):
        found[step.group] = place[row]
        row = int(parent[row])
    return found
