"""Found: what a solver answers for one group, and what limits it.

In    numbers in scaled rewards
Out   records that solvers share
Not   rows: counts of a ladder's levels stand for them
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentrl.selection.ladder import Ladder
from agentrl.selection.objective import Ints


@dataclass(frozen=True, slots=True)
class Quota:
    """What one group may and must keep."""

    most: int
    """Rows at most."""
    least: int = 0
    """Rows at least, if any are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A choice for one group."""

    counts: Ints
    """Rows to take of each level."""
    worth: float
    """Q of the choice."""
    bound: float
    """No choice that was allowed has a larger Q."""
    price: float
    """Q that a token more would bring."""
    method: str
    """How it was found."""

    @classmethod
    def nothing(cls, offer: Ladder, bound: float = 0.0) -> Found:
        """No choice with contrast is allowed."""
        return cls(np.zeros(offer.values.size, dtype=np.int64), 0.0, bound, 0.0, "nothing fits")
