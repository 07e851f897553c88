"""Exact arithmetic whose results can be far larger than what goes in.

In    Fractions and whole numbers within the size limit, and the meter that is charged
Out   Fractions within the size limit; None where an exact answer does not exist
Not   rounding: what is not rational is left to real.py
"""

from __future__ import annotations

import math
from fractions import Fraction

from agentrl.exact.budget import (
    MAX_BITS,
    MAX_CHOICES,
    MAX_FACTORIAL,
    MAX_ROOT,
    ExactError,
    Meter,
    fit,
)


def size(value: Fraction) -> int:
    """Bits of numerator and denominator together."""
    return value.numerator.bit_length() + value.denominator.bit_length()


def fitting(value: Fraction) -> Fraction:
    """The value, if it is within the size limit.

    For + - * / of fitting values: those can at most double the size, so here the check
    comes after the operation, and 1000!/998! may have large parts and a small result.
    """
    fit(size(value))
    return value


def power_bits(base: Fraction, exponent: int) -> int:
    """An upper bound for the bits of ``base ** exponent``, without computing it."""
    steps = abs(exponent)
    return _power_bits(abs(base.numerator), steps) + _power_bits(base.denominator, steps)


def _power_bits(base: int, exponent: int) -> int:
    if base <= 1:
        return 1
    # Sixteenths of a bit: for small bases the bit length alone is far too coarse.
    sixteenths = (base**16 - 1).bit_length() if base < 2**64 else 16 * base.bit_length()
    return sixteenths * exponent // 16 + 1


def whole_power(meter: Meter, base: Fraction, exponent: int) -> Fraction:
    """``base ** exponent`` for a whole exponent."""
    if base == 0 and exponent < 0:
        raise ExactError("division by zero: 0 to a negative power has no value.")
    bits = power_bits(base, exponent)
    fit(bits)
    meter.charge(bits)
    # Only 0, 1 and -1 fit with a huge exponent, and there only its parity counts.
    if abs(base) in (0, 1):
        exponent = 0 if exponent == 0 else 2 - exponent % 2
    return Fraction(base**exponent)


def root(meter: Meter, value: Fraction, index: int) -> Fraction | None:
    """The root of a value that is not negative, if it is rational and the index small."""
    if index > MAX_ROOT:
        return None
    meter.charge(size(value), times=index + 16 if index > 2 else 1)
    top = _whole_root(value.numerator, index)
    bottom = _whole_root(value.denominator, index)
    return None if top is None or bottom is None else Fraction(top, bottom)


def _whole_root(number: int, index: int) -> int | None:
    if number < 2:
        return number
    if index == 2:
        half = math.isqrt(number)
        return half if half * half == number else None
    guess = 1 << -(-number.bit_length() // index)
    while True:
        # Newton from above: the guesses fall until they reach the root's whole part.
        following = ((index - 1) * guess + number // guess ** (index - 1)) // index
        if following >= guess:
            return guess if guess**index == number else None
        guess = following


def whole_logarithm(meter: Meter, value: Fraction, base: Fraction, near: int) -> bool:
    """Whether ``base ** near`` is exactly the value."""
    bits = power_bits(base, near)
    if bits > MAX_BITS:
        return False
    meter.charge(bits)
    return bool(base**near == value)


def factorial(meter: Meter, n: int) -> Fraction:
    """The product of 1 to n."""
    if n < 0:
        raise ExactError("a factorial needs a whole number that is not negative.")
    if n > MAX_FACTORIAL:
        raise ExactError(f"factorials are computed up to {MAX_FACTORIAL}!. Use a smaller number.")
    bits = int(math.lgamma(n + 1) / math.log(2)) + 2
    fit(bits)
    meter.charge(bits)
    return Fraction(math.factorial(n))


def comb(meter: Meter, n: int, k: int) -> Fraction:
    """Ways to choose k of n things."""
    _check_choice("comb", n, k)
    if k > n:
        return Fraction(0)
    k = min(k, n - k)
    _check_choices("comb", k)
    # (n e / k)^k bounds the number of choices.
    fit(int(k * (math.log2(n) - math.log2(k) + 1.4427)) + 2 if k else 1)
    meter.charge(_choice_bits(n, k))
    return Fraction(math.comb(n, k))


def perm(meter: Meter, n: int, k: int) -> Fraction:
    """Ways to choose k of n things in order."""
    _check_choice("perm", n, k)
    if k > n:
        return Fraction(0)
    _check_choices("perm", k)
    fit(_choice_bits(n, k))
    meter.charge(_choice_bits(n, k))
    return Fraction(math.perm(n, k))


def _choice_bits(n: int, k: int) -> int:
    return int(k * math.log2(n)) + 2 if n else 1


def _check_choice(name: str, n: int, k: int) -> None:
    if n < 0 or k < 0:
        raise ExactError(f"{name} needs whole numbers that are not negative.")


def _check_choices(name: str, k: int) -> None:
    if k > MAX_CHOICES:
        raise ExactError(f"{name} chooses at most {MAX_CHOICES}. Use a smaller number.")
