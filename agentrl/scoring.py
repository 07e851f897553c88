"""What an author's `reward` returned → reward, parts, correct.

In    how the episode stopped, the returned value, what the tools gave
Out   EpisodeEnd
Not   a judgement where there is none: None stays None, and what is not finite is a fault
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, SupportsFloat

from agentrl.errors import EnvironmentFault, blame
from agentrl.trajectory import Stop

LARGEST = 1e100
"""Magnitude of a reward; sums of squares of thousands of such are finite."""
TOOLS = "tools"
"""Name of the part that holds what tools returned as reward."""


@dataclass(frozen=True, slots=True)
class EpisodeEnd:
    """How an episode ended and what it is worth."""

    stop: Stop
    reward: float | None = None
    """Sum of the parts; None where the episode cannot be scored."""
    parts: Mapping[str, float] | None = None
    """Named parts; a bare number is the part `reward`, tool rewards are the part `tools`."""
    correct: bool | None = None
    problem: str = ""
    """What broke, or why there is no reward."""

    @property
    def final(self) -> float:
        """What the end adds to rewards already given by tools; NaN without a reward."""
        if self.parts is None:
            return math.nan
        return sum((v for name, v in self.parts.items() if name != TOOLS), 0.0)


def score(stop: Stop, value: Any, tools: float, success: float) -> EpisodeEnd:
    """Add up an episode. `value` is what `reward` returned; EnvironmentFault if it is unusable."""
    if value is None:
        return EpisodeEnd(stop, problem="reward() returned None: it cannot be scored.")
    parts = _parts(value)
    if tools:
        parts[TOOLS] = tools
    total = sum(parts.values(), 0.0)
    if not abs(total) <= LARGEST:
        raise EnvironmentFault(
            f"reward(): its parts add up to {total:g}. Rewards are compared by their squares, "
            f"which must be numbers still: {LARGEST:g} is the most."
        )
    correct = parts["correct"] >= 0.5 if "correct" in parts else total >= success
    return EpisodeEnd(stop, total, parts, correct)


def _parts(value: Any) -> dict[str, float]:
    if not isinstance(value, Mapping):
        return {"reward": _number("reward()", value)}
    if TOOLS in value:
        raise EnvironmentFault(f"reward(): the part name {TOOLS!r} is taken by what tools give.")
    return {str(name): _number(f"reward() part {name!r}", part) for name, part in value.items()}


def _number(where: str, value: Any) -> float:
    # The protocol is slow to ask, and nearly every value is a plain number.
    if not isinstance(value, int | float) and not isinstance(value, SupportsFloat):
        raise EnvironmentFault(
            f"{where}: {type(value).__name__} is not a number. Return a float, a mapping of them, "
            "or None where the episode cannot be scored."
        )
    with blame(EnvironmentFault, where):
        number = float(value)
    if not math.isfinite(number):
        raise EnvironmentFault(f"{where}: {number} is not finite. Return None without a score.")
    return number
