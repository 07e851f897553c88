"""When two values are the same: exactly, to forty digits, or to the digits that were written.

In    values of the exact calculator: Fractions, or Decimals of forty digits
Out   True, False, or None where the digits that are left can't tell
Not   rounding of a gold that a decimal can write: 0.1 is not 0.1000001
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from agentrl.exact import Value

_ALIKE = Decimal("1e-25")
_APART = Decimal("1e-12")
_LOST = Decimal("1e-20")
"""Rounded values below this may be what is left of a difference."""
_DECIMAL = re.compile(r"[-+]?([0-9]*)\.([0-9]+)")


def same_value(one: Value, other: Value) -> bool | None:
    """Whether two values are one number."""
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return one == other
    a, b = _decimal(one), _decimal(other)
    largest = max(abs(a), abs(b))
    if largest < _LOST:
        return None
    apart = abs(a - b) / largest
    if apart <= _ALIKE:
        return True
    return False if apart >= _APART and min(abs(a), abs(b)) >= _LOST else None


def rounds_to(gold: Value, text: str, value: Value, digits: int) -> bool:
    """Whether a decimal is the gold to that many significant digits, rounded or cut off.

    Only for a gold that no decimal can write. `text` is how the value was written: 0.667 of
    2/3 shows too few digits, whatever it is compared to.
    """
    written = _DECIMAL.fullmatch(text)
    if written is None or terminates(gold) or gold == 0:
        return False
    if len((written[1] + written[2]).lstrip("0")) < digits:
        return False
    exact, near = _decimal(gold), _decimal(value)
    apart, last = abs(exact - near), Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return apart <= last / 2 or (apart < last and abs(near) < abs(exact))


def terminates(value: Value) -> bool:
    """Whether a decimal can write the value."""
    if isinstance(value, Decimal):
        return False
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def _decimal(value: Value) -> Decimal:
    if isinstance(value, Decimal):
        return value
    return Decimal(value.numerator) / Decimal(value.denominator)
