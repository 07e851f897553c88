"""Signs and roundings: + - * / % ^ √, floor, ceil, round, over both kinds of value.

In    a meter and the values an operation takes
Out   one value: exact if all that went in was exact and the result is rational
Not   a guess at the kind: once a rounded value went in, the result counts as rounded
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from fractions import Fraction

from agentrl.exact import rational, real
from agentrl.exact.budget import MAX_BITS, TRANSCENDENTAL, ExactError, Meter
from agentrl.exact.rational import fitting, power_bits, size
from agentrl.exact.real import WORK, Value, to_decimal

_REAL_BITS = 133
_MAX_PLACES = 1000
_MAX_QUOTIENT = 10**20


def _size(value: Value) -> int:
    return size(value) if isinstance(value, Fraction) else _REAL_BITS


def charge(meter: Meter, *values: Value, extra: int = 0) -> None:
    """Pay for one operation on these values."""
    meter.charge(sum(map(_size, values)), extra=extra)


def add(meter: Meter, a: Value, b: Value) -> Value:
    """``a + b``."""
    charge(meter, a, b)
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return fitting(a + b)
    return real.add(to_decimal(a), to_decimal(b))


def subtract(meter: Meter, a: Value, b: Value) -> Value:
    """``a - b``."""
    return add(meter, a, negate(meter, b))


def multiply(meter: Meter, a: Value, b: Value) -> Value:
    """``a * b``."""
    charge(meter, a, b)
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return fitting(a * b)
    return WORK.multiply(to_decimal(a), to_decimal(b))


def divide(meter: Meter, a: Value, b: Value) -> Value:
    """``a / b``."""
    charge(meter, a, b)
    if b == 0:
        raise ExactError("division by zero.")
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return fitting(a / b)
    return WORK.divide(to_decimal(a), to_decimal(b))


def mod(meter: Meter, a: Value, b: Value) -> Value:
    """The rest of ``a`` after whole ``b``s; it has the sign of ``b``."""
    quotient = divide(meter, a, b)
    if isinstance(quotient, Decimal) and abs(quotient) > _MAX_QUOTIENT:
        raise ExactError("too few digits are known for this remainder. Use exact numbers.")
    return subtract(meter, a, multiply(meter, b, floor(meter, quotient)))


def negate(meter: Meter, a: Value) -> Value:
    """``-a``."""
    charge(meter, a)
    return -a


def absolute(meter: Meter, a: Value) -> Value:
    """The value without its sign."""
    charge(meter, a)
    return real.magnitude(a)


def percent(meter: Meter, a: Value) -> Value:
    """A hundredth."""
    return divide(meter, a, Fraction(100))


def power(meter: Meter, base: Value, exponent: Value) -> Value:
    """``base ^ exponent``, exact where that is rational and fits."""
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        exact = _exact_power(meter, base, exponent)
        if exact is not None:
            return exact
    return _real_power(meter, base, exponent)


def _exact_power(meter: Meter, base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator != 1:
        if base < 0:
            return None
        found = rational.root(meter, base, exponent.denominator)
        if found is None:
            return None
        base = found
    # (1+1/10^6)^(10^6) is too long to write exactly and still an ordinary number.
    if base.denominator != 1 and power_bits(base, exponent.numerator) > MAX_BITS:
        return None
    return rational.whole_power(meter, base, exponent.numerator)


def _real_power(meter: Meter, base: Value, exponent: Value) -> Decimal:
    charge(meter, base, exponent, extra=TRANSCENDENTAL)
    if base == 0 and exponent < 0:
        raise ExactError("division by zero: 0 to a negative power has no value.")
    if exponent == 0 or base == 0:
        return Decimal(int(exponent == 0))
    if base > 0:
        return real.power(base, exponent)
    if isinstance(exponent, Decimal) or exponent.denominator != 1:
        raise ExactError(
            "a negative number to a fractional power is not a real number. "
            "For a real cube root of -8 write -(8^(1/3))."
        )
    size_only = real.power(-base, exponent)
    return -size_only if exponent.numerator % 2 else size_only


def squared(meter: Meter, a: Value) -> Value:
    """``a²``."""
    return power(meter, a, Fraction(2))


def cubed(meter: Meter, a: Value) -> Value:
    """``a³``."""
    return power(meter, a, Fraction(3))


def sqrt(meter: Meter, a: Value) -> Value:
    """The square root, exact where that is rational."""
    if a < 0:
        raise ExactError("the square root of a negative number is not a real number.")
    if isinstance(a, Fraction):
        found = rational.root(meter, a, 2)
        if found is not None:
            return found
    charge(meter, a)
    return real.square_root(a)


def floor(meter: Meter, a: Value) -> Value:
    """The nearest whole number that is not above."""
    return _to_places(meter, a, Fraction(0), ROUND_FLOOR)


def ceil(meter: Meter, a: Value) -> Value:
    """The nearest whole number that is not below."""
    return _to_places(meter, a, Fraction(0), ROUND_CEILING)


def nearest(meter: Meter, a: Value, places: Value = Fraction(0)) -> Value:
    """Rounded to decimal places, half away from zero."""
    return _to_places(meter, a, places, ROUND_HALF_UP)


def _to_places(meter: Meter, a: Value, digits: Value, rounding: str) -> Value:
    places = whole("round", digits)
    if abs(places) > _MAX_PLACES:
        raise ExactError(f"round goes to at most {_MAX_PLACES} decimal places.")
    charge(meter, a, extra=abs(places))
    if isinstance(a, Fraction):
        unit = Fraction(10) ** -places
        return fitting(_ROUNDINGS[rounding](a / unit) * unit)
    a = real.settled(a)
    if a.adjusted() + places >= WORK.prec - 1:
        return a
    return a.quantize(Decimal(1).scaleb(-places), rounding=rounding)


def _half_up(a: Fraction) -> int:
    size_only = math.floor(abs(a) + Fraction(1, 2))
    return -size_only if a < 0 else size_only


_ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    ROUND_FLOOR: math.floor,
    ROUND_CEILING: math.ceil,
    ROUND_HALF_UP: _half_up,
}


def whole(name: str, value: Value) -> int:
    """The value as an int, for what counts things."""
    if isinstance(value, Decimal) or value.denominator != 1:
        raise ExactError(f"{name} needs whole numbers here. Use round, or an exact number.")
    return value.numerator
