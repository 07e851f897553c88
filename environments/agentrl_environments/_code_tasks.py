"""Problems that a few lines of Python solve and a head does not.

In    a random generator, and one kind or all
Out   Task: the first question, all answers as texts; in `meta` the kind and the later questions
Not   code for the answers: a gold answer comes from another way to it than the reference goes,
      and is computed here, not where a policy's code runs
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from agentrl.task import Task


@dataclass(frozen=True, slots=True)
class Part:
    """One question of a problem."""

    question: str
    code: str
    """The reference: prints the answer; a later part may use the names of an earlier one."""
    answer: int


Maker = Callable[[np.random.Generator], tuple[Part, ...]]


def code_task(rng: np.random.Generator, kind: str = "mixed", difficulty: str = "mixed") -> Task:
    """One problem of a kind or of a level; one of two parts is asked one after the other."""
    if kind == "mixed":
        kind = str(rng.choice(kinds_of(difficulty)))
    parts = KINDS[kind](rng)
    said = [words for part in parts for words in (python_call(part.code), f"Answer: {part.answer}")]
    return Task(
        parts[0].question,
        [str(part.answer) for part in parts],
        meta={
            "difficulty": level_of(kind),
            "tags": [kind],
            "kind": kind,
            "later": [part.question for part in parts[1:]],
        },
        reference=tuple(said),
    )


def kinds_of(difficulty: str) -> list[str]:
    """The kinds of a level; all of them where levels are mixed."""
    return list(KINDS) if difficulty == "mixed" else list(LEVELS[difficulty])


def level_of(kind: str) -> str:
    """The level that a kind belongs to."""
    return next(level for level, kinds in LEVELS.items() if kind in kinds)


def python_call(code: str) -> str:
    """The words that run code, as Hermes JSON."""
    call = {"name": "python", "arguments": {"code": code}}
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


def _between(rng: np.random.Generator, low: int, high: int) -> int:
    """A whole number from low to high, both included."""
    return int(rng.integers(low, high + 1))


def _stretch(rng: np.random.Generator, start: int, length: int) -> tuple[int, int]:
    low = _between(rng, 1, start)
    return low, low + _between(rng, length // 2, length)


def multiples(rng: np.random.Generator) -> tuple[Part]:
    """A sum over a range with two conditions."""
    low, high = _stretch(rng, 5_000, 50_000)
    p, q = (int(n) for n in rng.choice([3, 4, 5, 7, 11, 13, 17, 19], 2, replace=False))
    both = math.lcm(p, q)
    return (
        Part(
            f"What is the sum of all whole numbers from {low} to {high} that are divisible by {p} "
            f"but not by {q}?",
            f"print(sum(n for n in range({low}, {high} + 1) if n % {p} == 0 and n % {q}))",
            _sum_of_multiples(low, high, p) - _sum_of_multiples(low, high, both),
        ),
    )


def _sum_of_multiples(low: int, high: int, step: int) -> int:
    first, last = -(-low // step), high // step
    return step * (first + last) * (last - first + 1) // 2 if last >= first else 0


def digit_sums(rng: np.random.Generator) -> tuple[Part]:
    """How many numbers have a digit sum."""
    most, total = _between(rng, 20_000, 200_000), _between(rng, 8, 30)
    return (
        Part(
            f"How many whole numbers from 1 to {most} have digits that add up to {total}?",
            f"print(sum(sum(map(int, str(n))) == {total} for n in range(1, {most} + 1)))",
            _with_digit_sum(most, total),
        ),
    )


def _with_digit_sum(most: int, total: int) -> int:
    """Digit by digit: below the number's own digit everything behind is free."""
    digits = [int(digit) for digit in str(most)]
    found, before = 0, 0
    for place, own in enumerate(digits):
        free = len(digits) - place - 1
        found += sum(_fillings(free, total - before - digit) for digit in range(own))
        before += own
    return found + (before == total)


def _fillings(places: int, total: int) -> int:
    """Rows of that many digits with that sum, by inclusion and exclusion of digits over 9."""
    if total < 0 or places == 0:
        return int(places == 0 and total == 0)
    return sum(
        (-1) ** over
        * math.comb(places, over)
        * math.comb(total - 10 * over + places - 1, places - 1)
        for over in range(places + 1)
        if total >= 10 * over
    )


def digits_of_a_power(rng: np.random.Generator) -> tuple[Part]:
    """The digits of a number that is too long to write."""
    base, exponent = 10 * _between(rng, 1, 99) + _between(rng, 1, 9), _between(rng, 60, 300)
    rest, total = base**exponent, 0
    while rest:
        rest, digit = divmod(rest, 10)
        total += digit
    return (
        Part(
            f"What is the sum of the decimal digits of {base}^{exponent}?",
            f"print(sum(int(digit) for digit in str({base} ** {exponent})))",
            total,
        ),
    )


def repeated_rule(rng: np.random.Generator) -> tuple[Part]:
    """A rule applied many times; the gold answer squares the rule instead."""
    m = _between(rng, 100_000, 999_999)
    x, a, c = (_between(rng, 2, m - 1) for _ in range(3))
    times = _between(rng, 1_000, 100_000)
    factor, shift, left, step = 1, 0, times, (a, c)
    while left:
        if left % 2:
            factor, shift = step[0] * factor % m, (step[0] * shift + step[1]) % m
        step = (step[0] * step[0] % m, (step[0] * step[1] + step[1]) % m)
        left //= 2
    return (
        Part(
            f"Start with x = {x}. Replace x by the remainder of {a}*x + {c} after division by {m}. "
            f"Do that {times} times. What is x then?",
            f"x = {x}\nfor _ in range({times}):\n    x = ({a} * x + {c}) % {m}\nprint(x)",
            (factor * x + shift) % m,
        ),
    )


def pairs(rng: np.random.Generator) -> tuple[Part]:
    """Pairs with a divisible sum; the gold answer counts remainders."""
    n, k = _between(rng, 100, 500), _between(rng, 3, 30)
    counts = [(n - r) // k + (r > 0) for r in range(k)]
    ordered = sum(counts[r] * counts[-r % k] for r in range(k))
    own = sum(counts[r] for r in range(k) if 2 * r % k == 0)
    return (
        Part(
            f"How many pairs of whole numbers a < b, both from 1 to {n}, have a sum that is "
            f"divisible by {k}?",
            f"n = {n}\nprint(sum((a + b) % {k} == 0 for a in range(1, n + 1) "
            "for b in range(a + 1, n + 1)))",
            (ordered - own) // 2,
        ),
    )


def primes(rng: np.random.Generator) -> tuple[Part]:
    """A sum of primes; the gold answer sieves."""
    low, high = _stretch(rng, 5_000, 5_000)
    prime = bytearray([0, 0] + [1] * (high - 1))
    for n in range(2, math.isqrt(high) + 1):
        if prime[n]:
            prime[n * n :: n] = bytes(len(range(n * n, high + 1, n)))
    return (
        Part(
            f"What is the sum of all prime numbers from {low} to {high}?",
            "def is_prime(n):\n"
            "    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))\n\n"
            f"print(sum(n for n in range({low}, {high} + 1) if is_prime(n)))",
            sum(n for n in range(low, high + 1) if prime[n]),
        ),
    )


def coprime(rng: np.random.Generator) -> tuple[Part]:
    """Numbers without a common divisor; the gold answer includes and excludes."""
    most = _between(rng, 20_000, 200_000)
    chosen = sorted(int(p) for p in rng.choice([2, 3, 5, 7, 11, 13, 17, 19], 4, replace=False))
    k = math.prod(chosen)
    sets = [some for size in range(5) for some in combinations(chosen, size)]
    return (
        Part(
            f"How many whole numbers from 1 to {most} have no divisor above 1 in common with {k}?",
            f"from math import gcd\n\nprint(sum(gcd(n, {k}) == 1 for n in range(1, {most} + 1)))",
            sum((-1) ** len(some) * (most // math.prod(some)) for some in sets),
        ),
    )


def coins(rng: np.random.Generator) -> tuple[Part]:
    """Ways to pay; the gold answer adds one coin after the other."""
    total = _between(rng, 400, 900)
    values = sorted(int(v) for v in rng.choice(np.arange(3, 20), 3, replace=False))
    ways = [1] + [0] * total
    for value in values:
        for amount in range(value, total + 1):
            ways[amount] += ways[amount - value]
    x, y, z = values
    return (
        Part(
            f"In how many ways can {total} cents be paid with coins of {x}, {y} and {z} cents? "
            "Order does not matter, and a kind of coin may be left out.",
            f"total = {total}\nprint(sum((total - {x} * i - {y} * j) % {z} == 0\n"
            f"    for i in range(total // {x} + 1) for j in range((total - {x} * i) // {y} + 1)))",
            ways[total],
        ),
    )


def circle(rng: np.random.Generator) -> tuple[Part]:
    """Counting out; the gold answer counts backwards from the one who is left."""
    n, k = _between(rng, 200, 5_000), _between(rng, 3, 40)
    last = 0
    for size in range(2, n + 1):
        last = (last + k) % size
    return (
        Part(
            f"{n} children, numbered from 1, stand in a circle. Counting begins at number 1, and "
            f"each {k}-th child leaves at once. What is the number of the child that is left?",
            f"left, at = list(range(1, {n} + 1)), 0\nwhile len(left) > 1:\n"
            f"    at = (at + {k} - 1) % len(left)\n    del left[at]\nprint(left[0])",
            last + 1,
        ),
    )


def fridays(rng: np.random.Generator) -> tuple[Part]:
    """Days of the calendar; the gold answer uses a formula for weekdays."""
    start, end = _stretch(rng, 200, 300)
    first, last = 1600 + start, 1600 + end
    day = _between(rng, 1, 28)
    return (
        Part(
            f"How many times is day {day} of a month a Friday, from January {first} to December "
            f"{last}, in the Gregorian calendar?",
            f"from datetime import date\n\nprint(sum(date(y, m, {day}).weekday() == 4\n"
            f"    for y in range({first}, {last} + 1) for m in range(1, 13)))",
            sum(_weekday(y, m, day) == 6 for y in range(first, last + 1) for m in range(1, 13)),
        ),
    )


def _weekday(year: int, month: int, day: int) -> int:
    """Zeller's rule: 0 is Saturday, 6 is Friday."""
    if month < 3:
        year, month = year - 1, month + 12
    return (day + 13 * (month + 1) // 5 + year + year // 4 - year // 100 + year // 400) % 7


def sequence(rng: np.random.Generator) -> tuple[Part, Part]:
    """A long list, of which more is asked later."""
    n, m = _between(rng, 500, 3_000), _between(rng, 10_000, 99_999)
    x, a, c = _between(rng, 1, 999), _between(rng, 11, 999), _between(rng, 1, 999)
    numbers = [x]
    for _ in range(n - 1):
        numbers.append((a * numbers[-1] + c) % m)
    top = _between(rng, 10, 200)
    later = {
        f"What is the sum of the {top} largest numbers of that list?": (
            f"print(sum(sorted(numbers)[-{top}:]))",
            int(np.sort(np.array(numbers))[::-1][:top].sum()),
        ),
        "How often is a number of that list larger than the one before it?": (
            "print(sum(b > a for a, b in zip(numbers, numbers[1:])))",
            int((np.diff(numbers) > 0).sum()),
        ),
    }
    question, (code, answer) = list(later.items())[_between(rng, 0, 1)]
    return (
        Part(
            f"A list of {n} numbers begins with {x}. Each further number is the remainder of {a} "
            f"times the one before plus {c}, after division by {m}. What do all {n} add up to?",
            f"numbers = [{x}]\nwhile len(numbers) < {n}:\n"
            f"    numbers.append(({a} * numbers[-1] + {c}) % {m})\nprint(sum(numbers))",
            int(np.sum(numbers)),
        ),
        Part(question, code, answer),
    )


def grid(rng: np.random.Generator) -> tuple[Part, Part]:
    """A robot's path on squares: where it gets to, and later how much it saw."""
    n, size = _between(rng, 300, 2_000), _between(rng, 7, 40)
    x, a, c, m = (
        _between(rng, 1, 99),
        4 * _between(rng, 5, 200) + 1,
        2 * _between(rng, 1, 99) + 1,
        4096,
    )
    here, path, draw = 0, [0], x
    for _ in range(n):
        draw = (a * draw + c) % m
        right, down = ((1, 0), (0, 1), (-1, 0), (0, -1))[draw // 1024]
        here = (here // size + down) % size * size + (here % size + right) % size
        path.append(here)
    return (
        Part(
            f"A robot stands on square (0, 0) of a board of {size} by {size} squares whose edges "
            f"join: beyond {size - 1} comes 0 again. d begins at {x}. In each of {n} steps d "
            f"becomes the remainder of {a}*d + {c} after division by {m}; then the robot moves by "
            "(1, 0) if d < 1024, by (0, 1) if d < 2048, by (-1, 0) if d < 3072, else by (0, -1). "
            "It ends on (column, row). What is 1000*column + row?",
            f"d, at = {x}, (0, 0)\npath = [at]\nmoves = [(1, 0), (0, 1), (-1, 0), (0, -1)]\n"
            f"for _ in range({n}):\n    d = ({a} * d + {c}) % {m}\n    dx, dy = moves[d // 1024]\n"
            f"    at = ((at[0] + dx) % {size}, (at[1] + dy) % {size})\n    path.append(at)\n"
            "print(1000 * at[0] + at[1])",
            1000 * (here % size) + here // size,
        ),
        Part(
            "On how many different squares was it, the first one included?",
            "print(len(set(path)))",
            int(np.unique(path).size),
        ),
    )


def steps_to_one(rng: np.random.Generator) -> tuple[Part, Part]:
    """Halving and tripling; the gold answer takes two steps at once where it can."""
    low, high = _stretch(rng, 5_000, 400)
    counts = [_steps(n) for n in range(low, high + 1)]
    most = max(counts)
    return (
        Part(
            "Take a whole number. While it is above 1, halve it if it is even, else triple it and "
            f"add 1; each is one step. How many steps do all numbers from {low} to {high} take "
            "together?",
            "def steps(n):\n    count = 0\n    while n > 1:\n"
            "        n = n // 2 if n % 2 == 0 else 3 * n + 1\n        count += 1\n"
            "    return count\n\n"
            f"counts = {{n: steps(n) for n in range({low}, {high} + 1)}}\n"
            "print(sum(counts.values()))",
            sum(counts),
        ),
        Part(
            "Which of these numbers takes the most steps? If several do, take the smallest.",
            "print(min(n for n in counts if counts[n] == max(counts.values())))",
            low + counts.index(most),
        ),
    )


def _steps(n: int) -> int:
    count = 0
    while n > 1:
        if n % 2:
            n, count = (3 * n + 1) // 2, count + 2
        else:
            zeros = (n & -n).bit_length() - 1
            n, count = n >> zeros, count + zeros
    return count


KINDS: Final[Mapping[str, Maker]] = {
    "multiples": multiples,
    "digit_sums": digit_sums,
    "digits_of_a_power": digits_of_a_power,
    "repeated_rule": repeated_rule,
    "pairs": pairs,
    "primes": primes,
    "coprime": coprime,
    "coins": coins,
    "circle": circle,
    "fridays": fridays,
    "sequence": sequence,
    "grid": grid,
    "steps_to_one": steps_to_one,
}
"""How to make a problem, by its kind; the last three have two parts."""

LEVELS: Final[Mapping[str, tuple[str, ...]]] = {
    "easy": ("multiples", "digit_sums", "digits_of_a_power", "pairs", "coprime"),
    "medium": ("repeated_rule", "primes", "coins", "circle", "fridays"),
    "hard": ("sequence", "grid", "steps_to_one"),
}
"""One expression; a few lines; two questions about the same numbers."""
