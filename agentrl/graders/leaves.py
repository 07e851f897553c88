r"""Text → Form, where the text holds no list, relation or bracket around it all.

In    "12", "1 3/4", "50%", "10 cm", "3:30", "101_2", "-∞", "yes", "2x+1"
Out   Form: a number with its unit, words, an expression, nothing, or opaque
Not   a guess: letters that may be a unit or a variable are what `worded` says
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from agentrl.exact import ExactError, Value
from agentrl.graders.expression import Expression, read_expression
from agentrl.graders.form import Form, Kind
from agentrl.graders.units import KNOWN, NONE, SCALES, Unit, unit_in

INFINITY = Decimal("Infinity")

_SPACED = re.compile(r"(?<![0-9.,])([0-9]{1,3})((?: [0-9]{3})+)(?![0-9]|[ ]?/)")
_SIDE_BY_SIDE = re.compile(r"[0-9.] +[0-9.]")
_REPEATING = re.compile(
    r"(-?)([0-9]*)\.([0-9]*)(?:\\overline ?\{?([0-9]{1,20})\}?|\(([0-9]{1,20})\))"
)
_BASED = re.compile(r"([0-9A-F]{1,50})_(?:\{?(?:\()?([0-9]{1,2})(?:\))?\}?|\{ ?([a-z]+) ?\})")
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?: ?([ap])\.? ?m\.?)?", re.IGNORECASE)
_RATIO = re.compile(r"[^:]{1,60}(?::[^:]{1,60}){1,4}")
_ENDLESS = re.compile(r"([-+]?) ?(?:∞|infinity|inf)", re.IGNORECASE)
_MONEY = re.compile(r"^([-+]?) ?([¤€£]) ?(?=[-+.0-9\\])")
_BEHIND = re.compile(
    r"(?:(?<=[0-9})\]])|(?<=\\pi)) ?([A-Za-z°%¤€£¢][A-Za-z°./^{} 0-9-]{0,60})$"
    r"|(?<=[0-9}).]) ?([%°¤€£¢])$"
)
_ANGLE_OF = re.compile(r"sin|cos|tan")
_WORDS = re.compile(r"\(?[A-Za-z][A-Za-z' -]*\)?")
_SHORT = re.compile(
    "yes|no|odd|red|one|two|six|ten|sat|sun|mon|tue|wed|thu|fri|"
    "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
)
"""Words that could be products of variables, and are not."""
_NAN = frozenset(("nan", "undefined", "indeterminate"))


def read_leaf(text: str, worded: bool) -> Form:
    """The form of the smallest part of an answer."""
    text = text.strip()
    if not text:
        return Form(Kind.OPAQUE, text, name="empty")
    if text.lower() == "nan":
        return Form(Kind.NOTHING, text)
    joined = _SPACED.sub(lambda found: found[0].replace(" ", ""), text)
    return (
        _words(joined, worded)
        or _endless(joined)
        or _special(joined)
        or _measured(joined, worded)
        or _arithmetic(joined)
    )


def _words(text: str, worded: bool) -> Form | None:
    """Words, if the letters are no product of variables."""
    if not _WORDS.fullmatch(text):
        return None
    words = text.strip("()").split()
    alone = len(words) == 1 and (len(words[0]) > 3 or bool(_SHORT.fullmatch(words[0].lower())))
    certain = worded or alone or _is_sentence(words)
    return Form(Kind.WORDS, text.strip("()").strip()) if certain else None


def _is_sentence(words: list[str]) -> bool:
    return len(words) > 1 and all(len(word) > 1 or word in "aAI" for word in words)


def _endless(text: str) -> Form | None:
    found = _ENDLESS.fullmatch(text)
    if found is None:
        return None
    return Form(Kind.NUMBER, text, value=-INFINITY if found[1] == "-" else INFINITY)


def _special(text: str) -> Form | None:
    """Digits in a base, the time of day, repeating decimals, ratios."""
    based = _BASED.fullmatch(text)
    if based:
        return Form(Kind.WORDS, based[1], unit=Unit(f"base {based[2] or based[3]}"))
    clock = _CLOCK.fullmatch(text)
    if clock and int(clock[1]) < 25 and int(clock[2]) < 60:
        half = f" {clock[3].lower()}m" if clock[3] else ""
        unit = Unit(f"clock{half}") if half else NONE
        return Form(Kind.WORDS, f"{int(clock[1])}:{clock[2]}", unit=unit)
    repeating = _REPEATING.fullmatch(text)
    if repeating:
        return Form(Kind.NUMBER, text, value=_repeated(*repeating.groups()))
    return _ratio(text) if ":" in text else None


def _repeated(
    sign: str, whole: str, once: str, again: str | None, bracketed: str | None
) -> Fraction:
    again = again or bracketed or ""
    scale = 10 ** len(once)
    value = Fraction(int((whole + once) or "0"), scale)
    value += Fraction(int(again), (10 ** len(again) - 1) * scale)
    return -value if sign else value


def _ratio(text: str) -> Form | None:
    if not _RATIO.fullmatch(text):
        return None
    parts = [_arithmetic(part.strip()) for part in text.split(":")]
    first, *others = [part.value for part in parts]
    if not isinstance(first, Fraction) or not all(isinstance(v, Fraction) and v for v in others):
        return None
    if len(others) == 1 and isinstance(others[0], Fraction):
        return Form(Kind.NUMBER, text, value=first / others[0])
    return Form(Kind.TUPLE, text, parts=_proportions(parts), ends="::")


def _proportions(parts: list[Form]) -> tuple[Form, ...]:
    """Each part over the last, so that 1:2:3 is 2:4:6."""
    values = [part.value for part in parts if isinstance(part.value, Fraction)]
    return tuple(Form(Kind.NUMBER, str(v / values[-1]), value=v / values[-1]) for v in values)


def _measured(text: str, worded: bool) -> Form | None:
    """A number with a unit in front or behind."""
    money = _MONEY.match(text)
    if money:
        rest = money[1] + text[money.end() :]
        form = _measured(rest, worded) or _arithmetic(rest)
        plain = form.kind is Kind.NUMBER and form.unit == NONE
        return replace(form, unit=KNOWN[money[2]]) if plain else None
    behind = _BEHIND.search(text)
    if behind is None or ("°" in behind[0] and _ANGLE_OF.search(text)):
        return None
    factor, words = _scale(behind[1] or behind[2])
    unit = unit_in(words, worded) if words else NONE
    if unit == NONE and words and not (worded or behind[0].startswith(" ")):
        return None
    form = _arithmetic(text[: behind.start()].strip())
    if unit is None or form.kind is not Kind.NUMBER or form.value is None:
        return None
    if factor > 1:
        return Form(Kind.NUMBER, text, value=form.value * factor, unit=unit)
    return replace(form, unit=unit)


def _scale(words: str) -> tuple[int, str]:
    """Million and its like in front of a unit."""
    first, _, rest = words.partition(" ")
    factor = SCALES.get(first.lower(), 1)
    return (factor, rest.strip()) if factor > 1 else (1, words)


def _arithmetic(text: str) -> Form:
    """A number or an expression by its value; nothing where it is divided by zero."""
    expression = read_expression(text)
    if expression is None:
        mixed = re.search(r"[0-9] [0-9]+ ?/ ?[0-9]", text)
        beside = _SIDE_BY_SIDE.search(text) and not mixed
        return Form(Kind.NOTHING if beside else Kind.OPAQUE, text)
    if expression.names:
        return Form(Kind.EXPRESSION, text, expression=expression)
    value = _value(expression)
    if isinstance(value, str):
        return Form(Kind.NOTHING if "division by zero" in value else Kind.OPAQUE, text, name=value)
    return Form(Kind.NUMBER, text, value=value, expression=expression)


def _value(expression: Expression) -> Value | str:
    try:
        return expression.at({})
    except ExactError as error:
        return str(error)
