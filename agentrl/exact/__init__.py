"""Exact arithmetic on text: what the calculator answers and graders compare with.

In    an expression such as "2^10 - 1/3", of any origin, also hostile
Out   its value, exact where it is rational and small enough, or ExactError in words
Not   symbolic: no variables, no equations; and never Python, whatever the text is

    budget      limits, and the meter that counts work
    tokens      text → tokens
    program     tokens → steps in order
    operations  what each step does; arithmetic, rational and real (40 digits) compute
    numbers     one literal → Fraction, and a value → its text
"""

from __future__ import annotations

from decimal import Overflow, Underflow, localcontext
from fractions import Fraction

from agentrl.exact.budget import ExactError, Meter, located
from agentrl.exact.numbers import parse_number, same_number, written
from agentrl.exact.operations import OPERATIONS
from agentrl.exact.program import Step, compile_tokens
from agentrl.exact.real import MAX_DECADES, WORK, Value
from agentrl.exact.tokens import tokenize

__all__ = [
    "ExactError",
    "Meter",
    "Value",
    "calculate",
    "evaluate",
    "exact_value",
    "parse_number",
    "same_number",
    "written",
]


def evaluate(expression: str) -> str:
    """The value of an expression as text.

    A whole number; else a terminating decimal of at most 15 digits; else p/q; and where
    that is not possible, 15 digits with a leading ~.
    """
    return written(calculate(expression))


def exact_value(expression: str) -> Fraction | None:
    """The exact value of an expression; None if it has none or needs rounding."""
    try:
        value = calculate(expression)
    except ExactError:
        return None
    return value if isinstance(value, Fraction) else None


def calculate(expression: str, meter: Meter | None = None) -> Value:
    """The value of an expression: a Fraction if exact, a Decimal of 40 digits if not."""
    steps = compile_tokens(tokenize(expression))
    with localcontext(WORK):
        return _run(steps, meter or Meter())


def _run(steps: list[Step], meter: Meter) -> Value:
    stack: list[Value] = []
    for step in steps:
        if step.value is not None:
            stack.append(step.value)
            continue
        arguments = stack[-step.count :]
        del stack[-step.count :]
        with located(step.at):
            stack.append(_apply(step, arguments, meter))
    return stack[0]


def _apply(step: Step, arguments: list[Value], meter: Meter) -> Value:
    try:
        return OPERATIONS[step.name](meter, *arguments)
    except Overflow:
        raise ExactError(f"too large: over 10^{MAX_DECADES}. Compare logarithms.") from None
    except Underflow:
        raise ExactError(f"too close to zero: under 10^-{MAX_DECADES}.") from None
