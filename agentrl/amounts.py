"""Amounts as people read them.

In    seconds, counts, shares, perhaps None
Out   a few characters; a dash where there is nothing
Not   bytes (memory/size.py)
"""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Seconds as 42s, 3m05s or 2h07m."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole // 60 % 60:02d}m"


def brief(seconds: float) -> str:
    """Seconds of one phase: with a tenth where they are few."""
    return f"{seconds:.1f}s" if seconds < 100 else duration(seconds)


def number(value: float | None, digits: int = 2) -> str:
    """A number without a negative zero."""
    return "-" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def large(count: float) -> str:
    """A count with at most three digits before its unit."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return f"{count:.0f}"


def plural(count: int, one: str, many: str = "") -> str:
    """A count and what is counted."""
    return f"{count} {one if count == 1 else many or one + 's'}"
