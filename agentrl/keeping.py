"""Which recorded trajectories are learned from: `reward>=1,turns<=4`.

In    a rule: conditions with commas between, all of which must hold
Out   Rule, which says of a recorded line whether it is kept
Not   a program: a field, a comparison, a number or a word, and no more
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentrl.errors import UsageError, suggestion

NUMBERS = (
    "reward",
    "correct",
    "turns",
    "tool_calls",
    "tokens",
    "trained_tokens",
    "member",
    "version",
)
"""Fields that are compared as numbers; true is 1. `reward_parts.NAME` is one too."""
WORDS = ("stop", "status", "env", "difficulty", "task_id")
"""Fields that are compared as words."""
PARTS = "reward_parts."

COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "==": operator.eq,
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_CONDITION = re.compile(r"\s*([\w.]+)\s*(>=|<=|!=|==|=|>|<)\s*(\S(?:.*\S)?)\s*")
_TRUTH = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison."""

    field: str
    sign: str
    value: float | str

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether it holds; a line that lacks the field does not meet it."""
        if self.field.startswith(PARTS):
            found = (row.get("reward_parts") or {}).get(self.field.removeprefix(PARTS))
        else:
            found = row.get(self.field)
        if found is None:
            return False
        own = str(found) if isinstance(self.value, str) else float(found)
        return COMPARISONS[self.sign](own, self.value)


@dataclass(frozen=True, slots=True)
class Rule:
    """Conditions that must all hold."""

    text: str
    conditions: tuple[Condition, ...]

    def keeps(self, row: Mapping[str, Any]) -> bool:
        """Whether a recorded trajectory is kept; what infrastructure broke never is."""
        return row["status"] != "error" and all(c.holds(row) for c in self.conditions)


def rule_of(text: str) -> Rule:
    """The rule that a text names; an empty one keeps all.

    Raises:
        UsageError: it is none.
    """
    pieces = [piece for piece in text.split(",") if piece.strip()]
    return Rule(text, tuple(_condition(text, piece) for piece in pieces))


def _condition(text: str, piece: str) -> Condition:
    found = _CONDITION.fullmatch(piece)
    if found is None:
        raise UsageError(f"--keep {text}: {piece.strip()!r} is no condition. Write reward>=1.")
    field, sign, value = found.groups()
    if field in WORDS:
        if sign not in ("=", "==", "!="):
            raise UsageError(f"--keep {text}: {field} is a word. Compare it with = or !=.")
        return Condition(field, sign, value)
    if field not in NUMBERS and not (field.startswith(PARTS) and field != PARTS):
        known = (*NUMBERS, *WORDS, f"{PARTS}NAME")
        hint = suggestion(field, known, f"Known: {', '.join(known)}.")
        raise UsageError(f"--keep {text}: {field} is not a field. {hint}")
    try:
        return Condition(field, sign, _TRUTH[value] if value in _TRUTH else float(value))
    except ValueError:
        raise UsageError(f"--keep {text}: {value!r} is no number. Write reward>=1.") from None
