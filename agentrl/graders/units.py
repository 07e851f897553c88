"""Units of measurement, as far as answers name them.

In    what stands behind a number: "cm", "square units", "km/h", "apples"
Out   Unit: what it measures and how large it is; an unknown noun measures nothing
Not   a dictionary: a word that could change what is said (or, not, more) is no unit
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Unit:
    """What a number counts."""

    measures: str = ""
    """length, length^2, length/time, ...; empty where the word is no known unit."""
    size: Fraction = Fraction(1)
    """In the base unit of what it measures."""


NONE = Unit()
PERCENT = Unit("percent")

_TABLE: dict[str, dict[str, str]] = {
    "length": {
        "1": "m meter metre meters metres",
        "1000": "km kilometer kilometre kilometers kilometres",
        "1/100": "cm centimeter centimetre centimeters centimetres",
        "1/1000": "mm millimeter millimetre millimeters millimetres",
        "127/5000": "in inch inches",
        "381/1250": "ft foot feet",
        "1143/1250": "yd yard yards",
        "201168/125": "mi mile miles",
    },
    "mass": {
        "1": "g gram grams",
        "1000": "kg kilogram kilograms",
        "1/1000": "mg milligram milligrams",
        "1000000": "tonne tonnes",
        "45359237/100000": "lb lbs pound pounds",
        "45359237/1600000": "oz ounce ounces",
    },
    "time": {
        "1": "s sec secs second seconds",
        "60": "min mins minute minutes",
        "3600": "h hr hrs hour hours",
        "86400": "day days",
        "604800": "week weeks",
        "1/1000": "ms millisecond milliseconds",
    },
    "volume": {
        "1": "L l liter litre liters litres",
        "1/1000": "ml mL milliliter millilitre milliliters millilitres",
    },
    "degree": {"1": "° degree degrees deg"},
    "radian": {"1": "rad radian radians"},
    "celsius": {"1": "°C celsius"},
    "fahrenheit": {"1": "°F fahrenheit"},
    "dollar": {"1": "¤ dollar dollars USD usd", "1/100": "cent cents ¢"},
    "euro": {"1": "€ euro euros EUR"},
    "pound": {"1": "£ GBP"},
    "year": {"1": "year years yr yrs", "1/12": "month months"},
    "percent": {"1": "% percent"},
    "force": {"1": "N newton newtons"},
    "energy": {"1": "J joule joules", "1000": "kJ"},
    "power": {"1": "W watt watts", "1000": "kW"},
    "unit": {"1": "unit units"},
}
KNOWN = {
    word: Unit(what, Fraction(size))
    for what, sizes in _TABLE.items()
    for size, words in sizes.items()
    for word in words.split()
}
SCALES = {
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "dozen": 12,
}
_TELLING = re.compile(
    "or|and|not|nor|but|more|less|least|most|than|about|approximately|around|over|under|above|"
    "below|between|from|plus|minus|times|half|mod|if|when|where|for|with|without|except|either|"
    "neither|both|all|any|none|are|was|undefined|nan|inf|infinity|infinite|otherwise|solutions?|maybe|perhaps|possibly|"
    "unknown|unsure|wrong|incorrect|false|guess|unless|versus|vs|however|else|also|alternatively|"
    "instead|rather|though|although|factorials?|negative|inverse|reciprocal|opposite|imaginary|"
    "halved|doubled|tripled|repeating|recurring|choose|modulo|zero|one|two|three|four|"
    "five|six|seven|eight|nine|ten|eleven|twelve|[a-z]+teen|(?:twen|thir|for|fif|six|seven|eigh|"
    "nine)ty|(?:third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|[a-z]+teenth|"
    "[a-z]+tieth|(?:hundred|thousand|million|billion|trillion)th)s?|"
    "(?:ten|hundred|thousand|million|billion|trillion|dozen)s"
)
_POWERS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3, "squared": 2, "cubed": 3}
_RAISED = re.compile(r"\s*\^\s*\{?\s*(-?[1-4])\s*\}?$")
_WORD = re.compile(r"[A-Za-z°%¤€£¢][A-Za-z.'-]*")
_NOUN = re.compile(r"[A-Za-z]{2,}(?:[-'][A-Za-z]{2,})*")
_LEAST_LETTERS = {True: 3, False: 4}
"""Of an unknown noun: shorter ones are read as products of variables."""
MAX_WORDS = 4


def unit_in(text: str, worded: bool) -> Unit | None:
    """The unit that a text names; NONE for a noun that measures nothing; None if it is no unit.

    Args:
        text: What stands behind a number.
        worded: Whether letters are known to be words: a lone m may be a variable otherwise.
    """
    sides = re.split(r"\s*/\s*|\s+per\s+", text.strip())
    if len(sides) > 2:
        return None
    # Of km/h the h is no variable, once km is none.
    sure = worded or (len(sides) == 2 and any(len(side) > 1 and _known(side) for side in sides))
    units = [_simple(side.strip(), sure) for side in sides]
    if None in units:
        return None
    top, *bottom = [unit for unit in units if unit is not None]
    if not bottom or not top.measures:
        return top
    return Unit(f"{top.measures}/{bottom[0].measures}", top.size / bottom[0].size)


def _simple(text: str, worded: bool) -> Unit | None:
    raised = _RAISED.search(text)
    power = int(raised[1]) if raised else 1
    words = (text[: raised.start()] if raised else text).replace(".", "").split()
    for word in [word for word in words if word.lower() in _POWERS]:
        power *= _POWERS[word.lower()]
        words.remove(word)
    if not 0 < len(words) <= MAX_WORDS or not all(_WORD.fullmatch(word) for word in words):
        return None
    unit = _known(words[0]) if len(words) == 1 else None
    if unit is not None:
        sure = worded or len(words[0]) > 1 or not words[0].isalpha()
        return _raised(unit, power) if sure else None
    least = _LEAST_LETTERS[worded]
    nouns = all(_NOUN.fullmatch(word) and len(word) >= least for word in words)
    telling = any(_tells(piece.lower()) for word in words for piece in word.split("-"))
    return NONE if nouns and not telling and power == 1 else None


def _tells(word: str) -> bool:
    return word in SCALES or _TELLING.fullmatch(word) is not None


def _known(word: str) -> Unit | None:
    return KNOWN.get(word) or KNOWN.get(word.lower())


def _raised(unit: Unit, power: int) -> Unit:
    if power == 1:
        return unit
    return Unit(f"{unit.measures}^{power}", unit.size**power)
