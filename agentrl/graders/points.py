"""Expressions with variables, compared at points.

In    two expressions
Out   False where their values differ at a point; True where they agree at all, some of
      them negative and some whole; None where too few points have a value
Not   proof: agreement is a matter of chance, one in 10^12 for polynomials of degree 100

The points follow from the texts themselves: the same question has the same answer, and no
answer can be written to agree at points that are known beforehand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from fractions import Fraction

from agentrl.exact import ExactError, Value
from agentrl.graders.expression import Expression
from agentrl.graders.values import same_value

_FRACTIONS, _WHOLES = 6, 2
_ENOUGH = 4
_IMAGINARY = "i"

Point = Mapping[str, Fraction]


def same_at_points(gold: Expression, answer: Expression) -> bool | None:
    """Whether two expressions have the same values."""
    agreed, torn = 0, False
    for point in _points(gold, answer):
        values = value_at(gold, point), value_at(answer, point)
        if values[0] is None or values[1] is None:
            torn = torn or values[0] is not values[1]
            continue
        same = same_value(values[0], values[1])
        if same is False:
            # With i for any number only agreement means something.
            return None if _IMAGINARY in (*gold.names, *answer.names) else False
        agreed += same is True
        torn = torn or same is None
    return True if agreed >= _ENOUGH and not torn else None


def proportional(
    gold: tuple[Expression, Expression], answer: tuple[Expression, Expression]
) -> bool:
    """Whether two equations, each given by its sides, are one times a number."""
    ratios = set()
    for point in _points(*gold, *answer):
        sides = [value_at(side, point) for side in (*gold, *answer)]
        exact = [side for side in sides if isinstance(side, Fraction)]
        if len(exact) < 4 or exact[2] == exact[3]:
            return False
        ratios.add((exact[0] - exact[1]) / (exact[2] - exact[3]))
    return len(ratios) == 1 and 0 not in ratios


def value_at(expression: Expression, point: Point) -> Value | None:
    """The value there, if there is one."""
    try:
        return expression.at(point)
    except ExactError:
        return None


def _points(*expressions: Expression) -> Iterator[Point]:
    names = sorted({name for expression in expressions for name in expression.names})
    seed = "\0".join(expression.text for expression in expressions)
    for k in range(_FRACTIONS + _WHOLES if names else 1):
        yield {name: _coordinate(f"{seed}\0{k}\0{name}", k) for name in names}


def _coordinate(seed: str, k: int) -> Fraction:
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8])
    if k >= _FRACTIONS:
        return Fraction(2 + number % 11)
    # All positive first: roots and logarithms have values there. Then all negative, then mixed.
    sign = 1 if k < 3 else -1 if k == 3 else (-1) ** (number >> 60)
    return Fraction(sign * (1 + number % 10007), 1009)
