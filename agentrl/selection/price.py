"""The price of a token: where what is worth its tokens just fits the budget.

In    what would be taken at a price (Q and tokens), and the budget
Out   the two prices between which the budget is crossed, and the bound they give
Not   a choice: between the two prices some choice must be made whole

At price p no choice within the budget B is worth more than p * B + (most Q less p * tokens).
That bound is convex in p, and what is taken at one price gives a line below it. Where the
lines from either side cross is the next price to try; when the bound there is no higher than
the crossing, it is lowest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Taken = TypeVar("Taken")

ROUNDS = 60
CLOSE = 1e-7


@dataclass(frozen=True, slots=True)
class Line(Generic[Taken]):
    """What is taken at a price."""

    worth: float
    cost: float
    taken: Taken | None


@dataclass(frozen=True, slots=True)
class Priced(Generic[Taken]):
    """The price at which a budget is met."""

    price: float
    bound: float
    """No choice within the budget has a larger Q."""
    over: Line[Taken]
    """Taken at the last price that was too low."""
    under: Line[Taken]
    """Taken at the last price at which the budget is kept."""


def find(offer: Callable[[float], Line[Taken]], budget: float, least: Line[Taken]) -> Priced[Taken]:
    """The lowest bound; `least` is a choice within the budget that costs least."""
    over = offer(0.0)
    if over.cost <= budget:
        return Priced(0.0, over.worth, over, over)
    under, bound, best = least, over.worth, 0.0
    for _ in range(ROUNDS):
        price = max(0.0, (over.worth - under.worth) / max(over.cost - under.cost, 1e-300))
        model = over.worth + price * (budget - over.cost)
        line = offer(price)
        height = line.worth + price * (budget - line.cost)
        if height < bound:
            bound, best = height, price
        over, under = (line, under) if line.cost > budget else (over, line)
        if height <= model + CLOSE * max(abs(model), 1e-300):
            break
    return Priced(best, bound, over, under)
