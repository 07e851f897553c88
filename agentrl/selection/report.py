"""Selection: the rows that are trained on, and why.

In    what choose.py found out
Out   frozen records for the update, for files and for a person
Not   advantages (advantage.py)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

SHORT = 0.7
"""A length ratio below this is worth a warning."""


@dataclass(frozen=True, slots=True)
class GroupReport:
    """What became of one group."""

    kept: tuple[int, ...]
    """Kept rows, ascending, as positions in the caller's lists."""
    of: int
    """Rows of the group, unusable ones included."""
    valid: int
    """Rows that could be kept."""
    flat: bool
    """Whether the usable rewards hold no contrast; fewer than two never do."""
    dropped: str
    """Why nothing was kept; empty if something was."""
    spread_all: float
    """Population variance of the usable rewards."""
    spread_kept: float
    """Population variance of the kept rewards."""
    q_all: float
    """Sum of squared deviations of the usable rewards from their mean."""
    q_kept: float
    """The same of the kept rewards."""
    tokens_all: int
    """Tokens of the usable rows."""
    tokens_kept: int
    """Tokens of the kept rows."""
    note: str = ""
    """What was asked for this group and could not be done; empty if nothing."""


@dataclass(frozen=True, slots=True)
class Report:
    """How the choice was made and what it is worth, all groups together."""

    rule: str
    """Name of the rule."""
    method: str
    """How the rule was carried out."""
    q_kept: float
    """Q of the kept rows, summed over groups."""
    q_all: float
    """Q of all usable rows, summed over groups."""
    upper_bound: float
    """No choice under the same m, budget, floors and caps has a larger Q; q_kept where that is
    the largest."""
    gap: float
    """Share of the bound that was not reached: 1 - q_kept / upper_bound."""
    price: float
    """Squared reward that a token more would bring; 0 where no budget binds."""
    tokens_kept: int
    """Tokens of the kept rows."""
    tokens_all: int
    """Tokens of all usable rows."""
    cost_kept: int
    """What the kept rows count against the budget: their tokens, unless other costs were given."""
    length_ratio: float
    """Tokens of the kept rows, over those of as many average rows of their groups and rewards."""
    kept: int
    """Kept rows."""
    of: int
    """Rows given, unusable ones included."""
    excluded: Mapping[int, str]
    """Row to the reason why it could not be compared, ascending."""
    groups: Mapping[Hashable, GroupReport]
    """Label to report, in order of first appearance."""

    @property
    def flat(self) -> int:
        """Groups without contrast."""
        return sum(group.flat for group in self.groups.values())

    @property
    def shorter(self) -> bool:
        """Whether the kept rows are so much shorter than their like that length is rewarded."""
        return self.length_ratio < SHORT

    @property
    def spread_all(self) -> float:
        """Mean spread of the groups that something was kept of, before the choice."""
        return _mean([group.spread_all for group in self.groups.values() if group.kept])

    @property
    def spread_kept(self) -> float:
        """Mean spread of the same groups after it."""
        return _mean([group.spread_kept for group in self.groups.values() if group.kept])


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows that are trained on."""

    indices: tuple[int, ...]
    """Kept rows, ascending, as positions in the caller's lists."""
    weights: tuple[float, ...]
    """What each counts in the loss, one per index."""
    report: Report
    """Why these."""


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
