"""The table of operations: what each sign and function name does to values.

In    a meter and the values an operation takes
Out   one value: exact if all that went in was exact and the result is rational
Not   open: names outside FUNCTIONS have no meaning, and there is no way to add one
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from agentrl.exact import arithmetic, rational, real
from agentrl.exact.arithmetic import charge, whole
from agentrl.exact.budget import MAX_TOKENS, TRANSCENDENTAL, ExactError, Meter
from agentrl.exact.rational import fitting
from agentrl.exact.real import WORK, Value, to_decimal


def _least(meter: Meter, *values: Value) -> Value:
    return min(_alike(meter, values))


def _most(meter: Meter, *values: Value) -> Value:
    return max(_alike(meter, values))


def _alike(meter: Meter, values: tuple[Value, ...]) -> list[Fraction] | list[Decimal]:
    """All exact, or all rounded as soon as one is."""
    charge(meter, *values[:1])
    for a, b in itertools.pairwise(values):
        charge(meter, a, b)
    exact = [value for value in values if isinstance(value, Fraction)]
    return exact if len(exact) == len(values) else [to_decimal(value) for value in values]


def _gcd(meter: Meter, *values: Value) -> Value:
    result = 0
    for value in values:
        charge(meter, Fraction(result), value)
        result = math.gcd(result, whole("gcd", value))
    return Fraction(result)


def _lcm(meter: Meter, *values: Value) -> Value:
    result = Fraction(1)
    for value in values:
        charge(meter, result, value)
        result = fitting(Fraction(math.lcm(result.numerator, whole("lcm", value))))
    return result


def _factorial(meter: Meter, n: Value) -> Value:
    return rational.factorial(meter, whole("a factorial", n))


def _comb(meter: Meter, n: Value, k: Value) -> Value:
    return rational.comb(meter, whole("comb", n), whole("comb", k))


def _perm(meter: Meter, n: Value, k: Value) -> Value:
    return rational.perm(meter, whole("perm", n), whole("perm", k))


def _ln(meter: Meter, a: Value) -> Value:
    _check_logarithm(a)
    charge(meter, a, extra=TRANSCENDENTAL)
    return Fraction(0) if _is_exactly(a, 1) else WORK.plus(real.logarithm(a))


def _log(meter: Meter, a: Value, base: Value = Fraction(10)) -> Value:
    _check_logarithm(a)
    _check_logarithm(base)
    if base == 1:
        raise ExactError("a logarithm to base 1 has no value.")
    charge(meter, a, base, extra=2 * TRANSCENDENTAL)
    ratio = WORK.divide(real.logarithm(a), real.logarithm(base))
    if isinstance(a, Fraction) and isinstance(base, Fraction):
        near = int(ratio.to_integral_value())
        if rational.whole_logarithm(meter, a, base, near):
            return Fraction(near)
    return ratio


def _log2(meter: Meter, a: Value) -> Value:
    return _log(meter, a, Fraction(2))


def _check_logarithm(a: Value) -> None:
    if a <= 0:
        raise ExactError("a logarithm needs numbers above 0.")


def _is_exactly(a: Value, number: int) -> bool:
    return isinstance(a, Fraction) and a == number


def _transcendental(
    compute: Callable[[Value], Decimal], at: int, there: int
) -> Callable[..., Value]:
    """A function of one value that is rational at one exact place."""

    def operation(meter: Meter, a: Value) -> Value:
        charge(meter, a, extra=TRANSCENDENTAL)
        return Fraction(there) if _is_exactly(a, at) else compute(a)

    return operation


@dataclass(frozen=True, slots=True)
class Function:
    """An operation with a name that an expression may call."""

    apply: Callable[..., Value]
    """Takes the meter and the arguments."""
    least: int = 1
    """Fewest arguments."""
    most: int = 1
    """Most arguments."""

    @property
    def takes(self) -> str:
        """How many arguments, in words."""
        if self.least == self.most:
            return "1 argument" if self.most == 1 else f"{self.most} arguments"
        return f"{self.least} to {self.most} arguments"


FUNCTIONS = {
    "sqrt": Function(arithmetic.sqrt),
    "abs": Function(arithmetic.absolute),
    "round": Function(arithmetic.nearest, 1, 2),
    "floor": Function(arithmetic.floor),
    "ceil": Function(arithmetic.ceil),
    "min": Function(_least, 1, MAX_TOKENS),
    "max": Function(_most, 1, MAX_TOKENS),
    "gcd": Function(_gcd, 1, MAX_TOKENS),
    "lcm": Function(_lcm, 1, MAX_TOKENS),
    "factorial": Function(_factorial),
    "comb": Function(_comb, 2, 2),
    "perm": Function(_perm, 2, 2),
    "log": Function(_log, 1, 2),
    "log10": Function(_log),
    "log2": Function(_log2),
    "ln": Function(_ln),
    "exp": Function(_transcendental(real.exponential, 0, 1)),
    "sin": Function(_transcendental(real.sine, 0, 0)),
    "cos": Function(_transcendental(real.cosine, 0, 1)),
    "tan": Function(_transcendental(real.tangent, 0, 0)),
    "asin": Function(_transcendental(real.arc_sine, 0, 0)),
    "acos": Function(_transcendental(real.arc_cosine, 1, 0)),
    "atan": Function(_transcendental(real.arc_tangent, 0, 0)),
    "sinh": Function(_transcendental(real.hyperbolic_sine, 0, 0)),
    "cosh": Function(_transcendental(real.hyperbolic_cosine, 0, 1)),
    "tanh": Function(_transcendental(real.hyperbolic_tangent, 0, 0)),
}

OPERATIONS: dict[str, Callable[..., Value]] = {
    "+": arithmetic.add,
    "-": arithmetic.subtract,
    "*": arithmetic.multiply,
    "/": arithmetic.divide,
    "mod": arithmetic.mod,
    "^": arithmetic.power,
    "negate": arithmetic.negate,
    "percent": arithmetic.percent,
    "squared": arithmetic.squared,
    "cubed": arithmetic.cubed,
    **{name: function.apply for name, function in FUNCTIONS.items()},
}
