"""Ways: which of equal rewards are kept.

In    nothing
Out   a table of names
Not   how many are kept: Q decides that, and the budget

The cheapest of equal rewards cost least, and quietly prefer short trajectories. Drawing them
does not where no budget binds. Where one does, random still leans to short ones a little, for
more rows are kept where the draw was cheap; ht fixes counts and chances before it draws.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentrl.selection.ladder import Steps, by_cost, by_draw
from agentrl.selection.rules import Order, cheapest, drawn
from agentrl.selection.sampling import Size, far, far_short, short


@dataclass(frozen=True, slots=True)
class Way:
    """How rows of equal reward are told apart."""

    orders: tuple[Order, ...]
    """Where no budget binds; a later one is for where a budget refuses those before."""
    steps: Steps
    """Where a budget binds and no chances are known."""
    size: Size | None = None
    """What a row's chance is proportional to, where weights undo the chances."""
    unbiased: Size | None = None
    """The same where every row of the group has a chance; None if that cannot be."""


WITHIN: dict[str, Way] = {
    "auto": Way((drawn, cheapest), by_cost, unbiased=far),
    "random": Way((drawn,), by_draw, unbiased=far),
    "cheapest": Way((cheapest,), by_cost),
    "ht": Way((drawn,), by_cost, short, far_short),
}
