"""Text ↔ numbers: reading one literal, and writing one value.

In    the text of a single number; an exact value (Fraction) or a rounded one (Decimal)
Out   the Fraction it stands for; the text that `evaluate` answers with
Not   expressions: "1+1" is no number here
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from agentrl.exact.budget import MAX_LITERAL_DIGITS, MAX_LITERAL_EXPONENT, ExactError, fit
from agentrl.exact.real import Value, rounded, to_decimal
from agentrl.exact.tokens import GROUPED, PLAIN

MAX_WRITTEN = 400
"""Digits of the longest exact answer that is written in full."""

SHOWN = 15
"""Digits of a decimal answer."""

_NUMBER = re.compile(
    rf"(?P<sign>[-+\N{{MINUS SIGN}}]?)\s*(?P<top>{GROUPED}|{PLAIN})(?:\s*/\s*(?P<bottom>[0-9]+))?"
)


def literal(text: str) -> Fraction:
    """The exact value of an unsigned number such as 12, 1.5 or 2e-3."""
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, decimals = mantissa.partition(".")
    power = exponent.lstrip("+-").lstrip("0")
    if len(whole) + len(decimals) > MAX_LITERAL_DIGITS:
        raise ExactError(f"a number has more than {MAX_LITERAL_DIGITS} digits. Use a shorter one.")
    if len(power) > 4 or int(power or "0") > MAX_LITERAL_EXPONENT:
        raise ExactError(
            f"a number has an exponent beyond {MAX_LITERAL_EXPONENT}. Use a smaller one."
        )
    shift = int(exponent or "0") - len(decimals)
    fit((len(whole) + len(decimals) + abs(shift)) * 10 // 3)
    digits = int(whole + decimals)
    return Fraction(digits * 10**shift) if shift >= 0 else Fraction(digits, 10**-shift)


def parse_number(text: str) -> Fraction | None:
    """The exact value of one number: 12, -1,234.5, 2e3 or 3/4; None if it is none."""
    # The limit bounds the work on text that no one meant as a number.
    found = _NUMBER.fullmatch(text.strip()) if len(text) <= 2 * MAX_LITERAL_DIGITS else None
    if found is None:
        return None
    try:
        top = literal(found["top"].replace(",", ""))
        bottom = literal(found["bottom"] or "1")
    except ExactError:
        return None
    if bottom == 0:
        return None
    return top / bottom if found["sign"] in ("", "+") else -top / bottom


def same_number(a: str, b: str) -> bool | None:
    """Whether two texts are the same number; None if one of them is no number."""
    first, second = parse_number(a), parse_number(b)
    return None if first is None or second is None else first == second


def written(value: Value) -> str:
    """The answer: exact if it is short enough, else rounded and marked with ~."""
    if isinstance(value, Decimal):
        return "~" + _scientific_or_plain(value)
    if value.denominator == 1:
        return _integer(value.numerator)
    decimal = _terminating(value)
    if decimal is not None:
        return decimal
    if _length(value.numerator) + _length(value.denominator) <= MAX_WRITTEN:
        return f"{value.numerator}/{value.denominator}"
    return "~" + _scientific_or_plain(to_decimal(value))


def _length(number: int) -> int:
    # Not len(str(number)), which Python refuses above 4300 digits.
    return Decimal(number).adjusted() + 1


def _integer(number: int) -> str:
    length = _length(number)
    if length <= MAX_WRITTEN:
        return str(number)
    return f"~{_scientific(to_decimal(Fraction(number)), 4)} ({length} digits)"


def _terminating(value: Fraction) -> str | None:
    if 10**SHOWN % value.denominator:
        return None
    units = abs(value.numerator) * (10**SHOWN // value.denominator)
    whole, rest = divmod(units, 10**SHOWN)
    decimals = f"{rest:0{SHOWN}d}".rstrip("0")
    if len(decimals) + (_length(whole) if whole else 0) > SHOWN:
        return None
    return f"{'-' if value < 0 else ''}{whole}.{decimals}"


def _scientific(value: Decimal, digits: int) -> str:
    value = rounded(value, digits)
    shown = "".join(map(str, value.as_tuple().digits)).ljust(digits, "0")
    sign = "-" if value < 0 else ""
    return f"{sign}{shown[0]}.{shown[1:]}e{value.adjusted():+d}"


def _scientific_or_plain(value: Decimal) -> str:
    value = rounded(value, SHOWN)
    if value == 0:
        return "0"
    if -6 <= value.adjusted() < SHOWN:
        plain = f"{value:f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    mantissa, _, exponent = _scientific(value, SHOWN).partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"
