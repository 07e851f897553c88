"""Functions whose values are rounded: powers, logarithms, sines, to 40 digits.

In    exact (Fraction) or rounded (Decimal) values
Out   Decimals of 40 digits; ExactError where there is no real value of bearable size
Not   a bound on the error: digits that cancel are lost, and a difference with no
      digit left is 0
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import (
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    Underflow,
    localcontext,
)
from fractions import Fraction
from itertools import count
from typing import TypeAlias

from agentrl.exact.budget import ExactError

Value: TypeAlias = Fraction | Decimal
"""Exact where it is a Fraction, rounded to 40 digits where it is a Decimal."""

MAX_DECADES = 301_029
"""Decimal exponent of the largest and smallest rounded values, about 10^6 bits."""


def _context(digits: int) -> Context:
    return Context(
        prec=digits,
        rounding=ROUND_HALF_EVEN,
        Emin=-MAX_DECADES,
        Emax=MAX_DECADES,
        capitals=0,
        clamp=0,
        flags=[],
        traps=[InvalidOperation, DivisionByZero, Overflow, Underflow],
    )


WORK = _context(40)
_SETTLE = _context(36)
_WIDE = _context(60)
_LONG = _context(120)

_TINY = -25
"""Below 10^-25 the first term of a series is right to 40 digits."""

_CANCELLED = Decimal("1e-36")
_SINE_ERROR = Decimal("1e-37")
_MAX_POWER = Decimal(693_147)
_MAX_EXP = 100_000
_MAX_ANGLE = 10**30
_MAX_ROUNDED_ANGLE = 10**20

PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899"
    "86280348253421170679821480865132823066470938446095505822317253594"
)
CONSTANTS = {"pi": WORK.plus(PI), "e": WORK.exp(Decimal(1))}


def to_decimal(value: Value, context: Context = WORK) -> Decimal:
    """The value in the digits of a context."""
    if isinstance(value, Decimal):
        return value
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def magnitude(value: Value) -> Value:
    """The value without its sign."""
    return -value if value < 0 else value


def rounded(value: Decimal, digits: int) -> Decimal:
    """The value with at most that many digits, half to even."""
    return _context(digits).plus(value)


def settled(value: Decimal) -> Decimal:
    """The value without its last, unsure digits: 1.99...9 becomes 2."""
    return _SETTLE.plus(value)


def add(a: Decimal, b: Decimal) -> Decimal:
    """The sum; 0 where all sure digits cancel."""
    total = WORK.add(a, b)
    return Decimal(0) if abs(total) <= WORK.multiply(abs(a), _CANCELLED) else total


def square_root(value: Value) -> Decimal:
    """The root of a value that is not negative."""
    return WORK.plus(_WIDE.sqrt(to_decimal(value, _WIDE)))


def power(base: Value, exponent: Value) -> Decimal:
    """``base ** exponent`` of a positive base."""
    with localcontext(_WIDE):
        height = to_decimal(exponent, _WIDE) * logarithm(base)
        if abs(height) > _MAX_POWER:
            kind = "too large" if height > 0 else "too close to zero"
            raise ExactError(f"the power is {kind} for the calculator. Compare logarithms.")
        return WORK.plus(height.exp())


def logarithm(value: Value) -> Decimal:
    """The natural logarithm of a positive value, in 60 digits."""
    with localcontext(_WIDE):
        above = to_decimal(value - 1, _WIDE)
        if above.adjusted() < _TINY:
            return above * (1 - above / 2)
        return to_decimal(value, _WIDE).ln()


def exponential(value: Value) -> Decimal:
    """``e ** value``."""
    _limit("exp", value, _MAX_EXP)
    return WORK.plus(_WIDE.exp(to_decimal(value, _WIDE)))


def hyperbolic_sine(value: Value) -> Decimal:
    """Half of e^x - e^-x."""
    _limit("sinh", value, _MAX_EXP)
    x = to_decimal(value, _LONG)
    if x.adjusted() < _TINY:
        return WORK.plus(x)
    with localcontext(_LONG):
        return WORK.plus((x.exp() - (-x).exp()) / 2)


def hyperbolic_cosine(value: Value) -> Decimal:
    """Half of e^x + e^-x."""
    _limit("cosh", value, _MAX_EXP)
    x = to_decimal(value, _WIDE)
    with localcontext(_WIDE):
        return WORK.plus((x.exp() + (-x).exp()) / 2)


def hyperbolic_tangent(value: Value) -> Decimal:
    """The quotient of both."""
    return WORK.divide(hyperbolic_sine(value), hyperbolic_cosine(value))


def sine(value: Value) -> Decimal:
    """The sine of an angle in radians."""
    quarters, rest = _reduce("sin", value)
    return _sure(_around(quarters, rest), value)


def cosine(value: Value) -> Decimal:
    """The cosine of an angle in radians."""
    quarters, rest = _reduce("cos", value)
    return _sure(_around(quarters + 1, rest), value)


def tangent(value: Value) -> Decimal:
    """The tangent of an angle in radians."""
    below = cosine(value)
    if below == 0:
        raise ExactError("tan has no value at an odd multiple of pi/2.")
    return WORK.divide(sine(value), below)


def arc_tangent(value: Value) -> Decimal:
    """The angle between -pi/2 and pi/2 with that tangent."""
    return WORK.plus(_arc_tangent(to_decimal(value, _WIDE)))


def arc_sine(value: Value) -> Decimal:
    """The angle between -pi/2 and pi/2 with that sine."""
    below, above = _to_ends("asin", value)
    with localcontext(_WIDE):
        if not below or not above:
            return WORK.plus(PI / 2).copy_sign(below - above)
        return WORK.plus(_arc_tangent(to_decimal(value, _WIDE) / (below * above).sqrt()))


def arc_cosine(value: Value) -> Decimal:
    """The angle between 0 and pi with that cosine."""
    below, above = _to_ends("acos", value)
    with localcontext(_WIDE):
        if not below:
            return WORK.plus(PI)
        return WORK.plus(2 * _arc_tangent((above / below).sqrt()))


def _limit(name: str, value: Value, most: int) -> None:
    if magnitude(value) > most:
        digits = len(str(most)) - 1
        raise ExactError(f"{name} is computed up to 10^{digits} only. Use a smaller number.")


def _to_ends(name: str, value: Value) -> tuple[Decimal, Decimal]:
    """How far the value is from -1 and from 1; exact values lose no digit here."""
    if magnitude(value) > 1:
        raise ExactError(f"{name} needs a number from -1 to 1.")
    if isinstance(value, Decimal):
        return _WIDE.add(value, Decimal(1)), _WIDE.subtract(Decimal(1), value)
    return to_decimal(value + 1, _WIDE), to_decimal(1 - value, _WIDE)


def _reduce(name: str, value: Value) -> tuple[int, Decimal]:
    """An angle as whole quarter turns and a rest of at most an eighth of a turn."""
    _limit(name, value, _MAX_ANGLE if isinstance(value, Fraction) else _MAX_ROUNDED_ANGLE)
    with localcontext(_LONG):
        angle = to_decimal(value, _LONG)
        quarters = (2 * angle / PI).to_integral_value()
        return int(quarters) % 4, angle - quarters * PI / 2


def _around(quarters: int, rest: Decimal) -> Decimal:
    """The sine of that many quarter turns and a rest."""
    with localcontext(_WIDE):
        degree = 1 - quarters % 2
        size = rest if degree else Decimal(1)
        if rest.adjusted() >= _TINY:
            size = _total(_sine_terms(size, rest, degree))
        return WORK.plus(-size if quarters % 4 >= 2 else size)


def _total(terms: Iterator[Decimal]) -> Decimal:
    """The sum of ever smaller terms, up to the first that changes nothing."""
    total = Decimal(0)
    for term in terms:
        if total + term == total:
            break
        total += term
    return total


def _sine_terms(term: Decimal, x: Decimal, degree: int) -> Iterator[Decimal]:
    """From x (degree 1) the terms of sin x, from 1 (degree 0) those of cos x."""
    while True:
        yield term
        degree += 2
        term = -term * x * x / (degree * (degree - 1))


def _arc_terms(power: Decimal) -> Iterator[Decimal]:
    """The terms x - x^3/3 + x^5/5 ... of the arc tangent of a small x."""
    square = power * power
    for degree in count(1, 2):
        yield power / degree
        power = -power * square


def _sure(value: Decimal, angle: Value) -> Decimal:
    # A rounded multiple of pi is off by its last digit; so is its sine, and nothing more.
    unsure = isinstance(angle, Decimal) and abs(value) <= abs(angle) * _SINE_ERROR
    return Decimal(0) if unsure else value


def _arc_tangent(x: Decimal) -> Decimal:
    with localcontext(_WIDE):
        if abs(x) > 1:
            return (PI / 2).copy_sign(x) - _arc_tangent(1 / x)
        if x.adjusted() < _TINY:
            return x
        for _ in range(3):
            x = x / (1 + (1 + x * x).sqrt())
        return 8 * _total(_arc_terms(x))
