"""Numbers as a report writes them, the same on the page and in Markdown.

In    a number, or None where there is none
Out   short text
Not   rounding that hides: a small number keeps its leading digits
"""

from __future__ import annotations

import math

from agentrl.amounts import duration as duration
from agentrl.interval import Interval

NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


def number(value: float | None, digits: int = 3) -> str:
    """So many digits behind the point; of very small or large numbers so many leading ones."""
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0 or 10.0**-digits <= abs(value) < 1e6:
        return f"{value:.{digits}f}".replace("-", MINUS)
    return f"{value:.1e}".replace("-", MINUS)


def signed(value: float) -> str:
    """A difference."""
    return f"{value:+.3f}".replace("-", MINUS)


def percent(value: float | None) -> str:
    """A share of one."""
    if value is None or not math.isfinite(value):
        return NONE
    near_an_end = 0 < value < 0.01 or 0.99 < value < 1
    return f"{value:.2%}" if near_an_end else f"{value:.0%}"


def interval(found: Interval | None) -> str:
    """A mean and its 95% interval."""
    if found is None:
        return NONE
    return f"{number(found.mean)} ({number(found.low)} to {number(found.high)})"


def count(value: float | None) -> str:
    """A whole number with its thousands apart."""
    return NONE if value is None else f"{round(value):,}"


def amount(value: float | None) -> str:
    """A count in few digits: 74.3k."""
    if value is None:
        return NONE
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.3g}"


def size(value: float | None) -> str:
    """Bytes."""
    if value is None:
        return NONE
    for unit, large in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= large:
            return f"{round(value / large, 1):g} {unit}"
    return f"{value:.0f} B"


def several(number: int, one: str, more: str = "") -> str:
    """`1 step`, `2 steps`."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def listed(words: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""
