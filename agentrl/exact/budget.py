"""The limits of one calculation, and the meter that counts its work.

In    sizes in bits, known before an operation runs
Out   ExactError when the operation would be too large or the sum of work too much
Not   a clock: counts are the same on every machine, so the same text has the same answer
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agentrl.errors import AgentRLError

MAX_CHARACTERS = 2000
MAX_TOKENS = 600
MAX_DEPTH = 40
MAX_SIGNS = 8
MAX_TOWER = 12

MAX_LITERAL_DIGITS = 1200
MAX_LITERAL_EXPONENT = 4000

MAX_BITS = 16384
"""Bits of numerator and denominator together that any exact value may have."""

MAX_COST = 200_000
TRANSCENDENTAL = 400
"""What a function such as ln or sin costs on top of its size."""

MAX_FACTORIAL = 2000
MAX_CHOICES = 3000
MAX_ROOT = 64
"""Roots up to this index are tried exactly."""


class ExactError(AgentRLError):
    """The text has no single value that may be computed; the message says why."""


@contextmanager
def located(at: int) -> Iterator[None]:
    """Say in which character of the text an error of this block began."""
    try:
        yield
    except ExactError as error:
        raise ExactError(f"character {at}: {error}") from None


class Meter:
    """Counts the work of one calculation and stops it before it is too much."""

    __slots__ = ("spent",)

    def __init__(self) -> None:
        self.spent = 0

    def charge(self, bits: int, *, extra: int = 0, times: int = 1) -> None:
        """Pay for one operation on that many bits (``times`` for repeated ones)."""
        cost = (20 + bits * bits // 200_000 + bits // 50) * times + extra
        if self.spent + cost > MAX_COST:
            raise ExactError(
                "too much work: the whole expression is over the calculator's budget. "
                "Use smaller numbers or fewer operations."
            )
        self.spent += cost


def fit(bits: int) -> None:
    """Refuse a value of that many bits if it is over the size limit."""
    if bits > MAX_BITS:
        raise ExactError(
            f"too large: the exact value may need {_digits(bits)} digits, and the limit is "
            f"{_digits(MAX_BITS)}. Use smaller numbers, or compare logarithms."
        )


def _digits(bits: int) -> str:
    # Exponents may be huge themselves, so no decimal string of them is ever made.
    if bits.bit_length() > 60:
        return "more than 10^17"
    return f"about {bits * 30103 // 100_000}"
