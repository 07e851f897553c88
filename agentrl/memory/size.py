"""Sizes: bytes as people write them.

In    "80GiB", "24 GB", "16000MiB", or a bare number, which means GiB
Out   bytes; and bytes as people read them
Not   a guess: what is not a positive size is refused
"""

from __future__ import annotations

import re

from agentrl.errors import UsageError

UNITS = {
    "b": 1,
    **{f"{letter}b": 1000 ** (power + 1) for power, letter in enumerate("kmgt")},
    **{f"{letter}ib": 1024 ** (power + 1) for power, letter in enumerate("kmgt")},
    **{letter: 1024 ** (power + 1) for power, letter in enumerate("kmgt")},
    "": 1024**3,
}
"""Lower-case unit to bytes; "80" and "80G" are what vendors call 80 GB and fill with GiB."""

MOST = 2**60
"""Bytes; more is a slip of the hand."""

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", re.ASCII)


def parse_size(text: str, where: str = "--memory") -> int:
    """Bytes of a size.

    Raises:
        UsageError: it is no size, or nothing.
    """
    found = _SIZE.fullmatch(text)
    unit = UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise UsageError(f"{where} {text}: not a size. Write it like 80GiB, 24GB or 16000MiB.")
    number = float(found[1]) * unit
    if number > MOST:
        raise UsageError(f"{where} {text[:40]}: no machine has that. Write it like 80GiB.")
    size = int(number)
    if size < 1:
        raise UsageError(f"{where} {text}: nothing fits into no memory. Give a size like 80GiB.")
    return size


def in_words(size: float) -> str:
    """Bytes as a person reads them."""
    return f"{size / 1024**3:.1f} GiB" if size >= 1024**3 else f"{size / 1024**2:.1f} MiB"
