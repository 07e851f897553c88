"""Questions about a log, and the lines that answer them.

In    a number, a level, and how many lines a question hangs on
Out   Question: its words, the exact answer, the lines of the log that decide it
Not   the log: `_log_text.py` hides the lines among others, at any length
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

FIRST, DAY = 360, 960
"""Minutes: the log begins at six in the morning and ends at ten in the evening."""
LETTERS: Final = "BCDFGHKLMNPRSTVWXZ"


@dataclass(frozen=True, slots=True)
class Fact:
    """One line that matters."""

    minute: int
    """Since the log begins."""
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and what decides it."""

    kind: str
    words: str
    answer: str
    """Numbers, with commas between them."""
    facts: tuple[Fact, ...]
    """In the order of the log."""
    names: tuple[str, ...]
    """What no other line may speak of; those that are looked for come first."""
    rounds: tuple[tuple[str, ...], ...]
    """Names to look for, and those that are known only when the first ones were found."""


def make_question(number: int, level: str, needles: int = 0) -> Question:
    """The question of a log's number: the same one at any length of the log."""
    rng = Random(number)
    maker, least, most = rng.choice(LEVELS[level])
    return maker(rng, needles or rng.randint(least, most))


def clock(minute: int) -> str:
    """A minute of the log as the log writes it."""
    hours, minutes = divmod(FIRST + minute, 60)
    return f"{hours:02d}:{minutes:02d}"


def find(rng: Random, n: int) -> Question:
    """A number on each of some lines."""
    crates, seals = _names(rng, n), _values(rng, n, 1000, 9999)
    lines = [f"crate {crate} got seal {seal}" for crate, seal in zip(crates, seals, strict=True)]
    facts = _at(rng.sample(_minutes(rng, n), n), lines)
    words = f"Which seal did crate {crates[0]} get?"
    if n > 1:
        listed = ", ".join(crates)
        words = f"Which seals did these crates get, in this order: {listed}?"
    return Question(
        "find", words, ", ".join(map(str, seals)), facts, tuple(crates), (tuple(crates),)
    )


def count(rng: Random, n: int) -> Question:
    """How many lines there are, and what the last one says."""
    (pump,), codes = _names(rng, 1), _values(rng, n, 100, 999)
    facts = _at(_minutes(rng, n), [f"pump {pump} tripped with code {code}" for code in codes])
    words = f"How often did pump {pump} trip, and what was its last code? Give count, code."
    return Question("count", words, f"{n}, {codes[-1]}", facts, (pump,), ((pump,),))


def total(rng: Random, n: int) -> Question:
    """A sum over lines."""
    (tank,), litres = _names(rng, 1), _values(rng, n, 11, 499)
    facts = _at(_minutes(rng, n), [f"tank {tank} lost {amount} litres" for amount in litres])
    words = f"How many litres did tank {tank} lose in all?"
    return Question("total", words, str(sum(litres)), facts, (tank,), ((tank,),))


def last(rng: Random, n: int) -> Question:
    """A state after many changes, some of which were refused."""
    cart, _, moves, facts = _moves(rng, n)
    words = f"In which bay was cart {cart} at the end?"
    return Question("last", words, str(moves[-1]), facts, (cart,), ((cart,),))


def then(rng: Random, n: int) -> Question:
    """A state at a time between two changes."""
    cart, minutes, moves, facts = _moves(rng, max(n, 2))
    i = rng.randrange(len(moves) - 1)
    words = f"In which bay was cart {cart} at {clock(rng.randrange(minutes[i], minutes[i + 1]))}?"
    return Question("then", words, str(moves[i]), facts, (cart,), ((cart,),))


def compare(rng: Random, n: int) -> Question:
    """The highest of one thing's numbers against that of another."""
    each = max(1, n // 2)
    one, other = _names(rng, 2)
    shown = _values(rng, 2 * each, 1000, 9999)
    lines = [f"gauge {one} showed {value}" for value in shown[:each]]
    lines += [f"gauge {other} showed {value}" for value in shown[each:]]
    rng.shuffle(lines)
    facts = _at(_minutes(rng, 2 * each), lines)
    gap = abs(max(shown[:each]) - max(shown[each:]))
    words = f"How far apart were the highest numbers of gauges {one} and {other}?"
    return Question("compare", words, str(gap), facts, (one, other), ((one, other),))


def chain(rng: Random, n: int) -> Question:
    """What is asked for stands on a line that another line names."""
    crate, *trucks = _names(rng, n + 1)
    gates, minutes = _values(rng, n, 100, 999), _minutes(rng, 2 * n)
    loaded = _at(minutes[:n], [f"crate {crate} put on truck {truck}" for truck in trucks])
    left = [f"truck {t} left by gate {g}" for t, g in zip(trucks, gates, strict=True)]
    facts = (*loaded, *_at(rng.sample(minutes[n:], n), left))
    words = f"By which gate did crate {crate} leave, on the last truck that it was put on?"
    names = (crate, *trucks)
    return Question(
        "chain", words, str(gates[-1]), _sorted(facts), names, ((crate,), (trucks[-1],))
    )


Maker = Callable[[Random, int], Question]
LEVELS: Final[dict[str, tuple[tuple[Maker, int, int], ...]]] = {
    "easy": ((find, 1, 1), (last, 2, 3)),
    "medium": ((find, 2, 3), (count, 2, 5), (total, 2, 3), (last, 4, 6)),
    "hard": ((total, 4, 6), (then, 4, 6), (compare, 6, 8), (chain, 2, 4)),
}
"""Kinds of questions, with the fewest and most lines that one hangs on, by difficulty."""


def _moves(rng: Random, n: int) -> tuple[str, list[int], list[int], tuple[Fact, ...]]:
    """A cart, when it moved and where to, and the lines that say so."""
    refused = 1 + n // 3
    (cart,), bays = _names(rng, 1), _values(rng, n + refused, 100, 999)
    minutes = rng.sample(_minutes(rng, n + refused), n + refused)
    moved = sorted(minutes[:n])
    facts = _at(moved, [f"cart {cart} moved to bay {bay}" for bay in bays[:n]])
    facts += _at(minutes[n:], [f"cart {cart} was refused at bay {bay}" for bay in bays[n:]])
    return cart, moved, bays[:n], _sorted(facts)


def _names(rng: Random, n: int) -> list[str]:
    """Names that differ: a letter and three digits."""
    places = rng.sample(range(900 * len(LETTERS)), n)
    return [f"{LETTERS[place // 900]}{100 + place % 900}" for place in places]


def _values(rng: Random, n: int, low: int, high: int) -> list[int]:
    return rng.sample(range(low, high + 1), n)


def _minutes(rng: Random, n: int) -> list[int]:
    """Times in order, three minutes apart at least."""
    return sorted(rng.sample(range(3, DAY - 3, 3), n))


def _at(minutes: list[int], lines: list[str]) -> tuple[Fact, ...]:
    return _sorted([Fact(at, line) for at, line in zip(minutes, lines, strict=True)])


def _sorted(facts: list[Fact] | tuple[Fact, ...]) -> tuple[Fact, ...]:
    return tuple(sorted(facts, key=lambda fact: fact.minute))
