"""Options as a command line has them.

In    names as a list, or as one text with commas
Out   the names
Not   a check of what they name
"""

from __future__ import annotations

from collections.abc import Sequence


def names(value: str | Sequence[str]) -> tuple[str, ...]:
    """Names given as a list, or as one text with commas, as a command line has them."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in parts if part.strip())
