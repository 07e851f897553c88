"""What a grader says, and what it was told to overlook.

In    nothing: these are the records, and one rule for what a reward makes of them
Out   Verdict, three-valued; Policy, the debatable points; `reward_of`
Not   a choice made for you: what "undecided" is worth is the environment's to say
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is the gold answer."""

    correct: bool | None
    """None where it could not be decided."""
    reason: str
    seconds: float
    tier: int = 1
    """What said so: 1 exact comparison, 2 computer algebra in the sandbox."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Points on which graders differ, each by name."""

    percent: Literal["either", "strict"] = "either"
    """Whether 50% is 50 as well as 0.5, or 0.5 alone."""
    units: Literal["optional", "required"] = "optional"
    """Whether 10 is 10 cm. Two units that contradict each other are wrong in any case."""
    names: bool = True
    """x = 5 for 5, and 5 for x = 5. Never x = 5 for y = 5."""
    ordered: bool = False
    """Whether 1, 2 without brackets has an order; (1, 2) always has."""
    brackets: bool = True
    """1, 2 for (1, 2), and a row or column of a matrix for it."""
    singletons: bool = True
    """{1} for 1."""
    digits: int = 6
    """Significant digits of a decimal for a gold that no decimal can write, such as 2/3."""
    algebra: bool = True
    """Whether what exact comparison can't decide goes to computer algebra in the sandbox."""


def reward_of(verdict: Verdict, on_undecided: Literal["mask", "zero"] = "mask") -> float | None:
    """1 or 0; where it is undecided, None (out of the group) or 0, as the caller chooses."""
    if verdict.correct is None:
        return None if on_undecided == "mask" else 0.0
    return float(verdict.correct)
