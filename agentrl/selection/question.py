"""Question and Choice: what is asked of the selection, and what it answers.

In    settings that choose.py has checked
Out   records that the solvers share
Not   a report: choose.py makes one of the choice
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentrl.selection.objective import Ints

OPTIMAL = "max_variance"


@dataclass(frozen=True, slots=True)
class Question:
    """What the caller asked for."""

    rule: str
    within: str
    m: int
    """Most rows to keep of each group."""
    token_budget: int | None = None
    """Most tokens to keep of all groups together; None for no limit."""
    floor: int = 0
    """Fewest rows of a group with contrast."""
    floor_tokens: int = 0
    """Tokens that a group with contrast may spend before groups compete."""
    cap_tokens: int | None = None
    """Most tokens of one group; None for no limit."""
    padded: bool = False
    """Whether each of a group's kept rows costs as much as the longest."""
    unbiased: bool = False
    """Whether every row has a chance, and weights undo it."""

    @property
    def limited(self) -> bool:
        """Whether tokens count at all."""
        return self.token_budget is not None or self.cap_tokens is not None

    def cost(self, costs: Ints) -> int:
        """What rows of one group cost together."""
        if self.padded:
            return int(costs.max(initial=0)) * costs.size
        return int(costs.sum())

    def fits(self, costs: Sequence[int]) -> bool:
        """Whether groups of such costs are allowed."""
        within = self.token_budget is None or sum(costs) <= self.token_budget
        return within and (self.cap_tokens is None or max(costs, default=0) <= self.cap_tokens)


@dataclass(frozen=True, slots=True)
class Choice:
    """What is kept."""

    kept: tuple[tuple[int, ...], ...]
    """Positions kept in each pool; none where the pool is flat."""
    method: str
    """How it was found."""
    upper_bound: float
    """No choice that was allowed has a larger Q."""
    price: float = 0.0
    """Squared reward that a token more would bring; 0 where the budget does not bind."""
    weights: tuple[tuple[float, ...], ...] = ()
    """One for each kept position; all 1 where there are none."""
    notes: Mapping[int, str] = field(default_factory=dict)
    """Pool to what was asked for it and could not be done, or why it got nothing."""
