"""Arithmetic problems in many wordings, too large to guess.

In    a random generator and a difficulty
Out   Task: words, the exact answer as text, and in `meta` the expression that gives it
Not   natural language: wordings are a table, only numbers and nouns vary
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from string import Formatter
from typing import Final

import numpy as np

from agentrl.task import Task
from agentrl_tools.calculator import evaluate

NAMES: Final = ("Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Mia", "Tom")
THINGS: Final = ("apples", "books", "cards", "coins", "cups", "pens", "stamps", "tiles")
_WHOLE: Final = re.compile(r"[1-9]\d*")
_MONEY: Final = re.compile(r"[1-9]\d*(\.\d\d?)?")


@dataclass(frozen=True, slots=True)
class Wording:
    """One way to ask: text and expression share their slots.

    Slots `a` to `d` are whole numbers, `k` is one digit, `p` and `q` are prices with cents;
    `name` and `thing` are words.
    """

    text: str
    expression: str


EASY: Final = (
    Wording("{a}*{b}+{c}", "{a}*{b}+{c}"),
    Wording("{a} * {b} - {c} = ?", "{a}*{b}-{c}"),
    Wording("What is {a} times {b} plus {c}?", "{a}*{b}+{c}"),
    Wording("Work out {a} + {b} * {c}.", "{a}+{b}*{c}"),
    Wording(
        "{name} has {a} boxes of {b} {thing} and {c} loose ones. How many {thing} is that?",
        "{a}*{b}+{c}",
    ),
    Wording(
        "A hall has {a} rows of {b} seats. {c} seats are taken. How many are free?", "{a}*{b}-{c}"
    ),
    Wording("{name} pays {a} coins and then {b} coins on each of {c} days. What is the total?",
            "{a}+{b}*{c}"),
    Wording("A bus makes {a} trips of {b} km and one of {c} km. How far does it go?",
            "{a}*{b}+{c}"),
    Wording("{name} fills {a} bags with {b} {thing} each and gives {c} away. How many are left?",
            "{a}*{b}-{c}"),
    Wording("Add {a} to {b}, then multiply by {c}.", "({a}+{b})*{c}"),
)  # fmt: skip

MEDIUM: Final = (
    Wording("({a} + {b}) * {c}", "({a}+{b})*{c}"),
    Wording("{a} \N{MULTIPLICATION SIGN} {b} - {c} \N{MULTIPLICATION SIGN} {d}", "{a}*{b}-{c}*{d}"),
    Wording("Compute {a} * {b} + {c} * {d}.", "{a}*{b}+{c}*{d}"),
    Wording("Take {a} from {b} and multiply the result by {c}.", "({b}-{a})*{c}"),
    Wording("A shop sells {a} {thing} at {b} coins and {c} at {d} coins. How much is earned?",
            "{a}*{b}+{c}*{d}"),
    Wording("{name} buys {a} {thing} at {p} each and pays {b} for the trip. What is the cost?",
            "{a}*{p}+{b}"),
    Wording("{name} rides {a} km a day for {b} days, then {c} km a day for {d} days. How far?",
            "{a}*{b}+{c}*{d}"),
    Wording("A recipe needs {a} g of flour and {b} g of sugar. How much for {c} cakes?",
            "({a}+{b})*{c}"),
    Wording("{name} has {a} {thing} and {b} more arrive. They go into {k} equal piles. How many "
            "are in a pile?", "({a}+{b})/{k}"),
    Wording("A tank holds {a} litres. Each of {b} buckets takes {k} litres. How much is left?",
            "{a}-{b}*{k}"),
)  # fmt: skip

HARD: Final = (
    Wording("({a} + {b}) * ({c} - {d})", "({a}+{b})*({c}-{d})"),
    Wording("{a} * {b} * {k} + {c}", "{a}*{b}*{k}+{c}"),
    Wording("Find {a} * {b} - ({c} + {d}) * {k}.", "{a}*{b}-({c}+{d})*{k}"),
    Wording("Add {a} and {b}, multiply by {c}, then take away {d}.", "({a}+{b})*{c}-{d}"),
    Wording("{k} trucks carry {a} crates of {b} {thing} each. {c} break and {d} are sold. How "
            "many {thing} are left?", "{k}*{a}*{b}-{c}-{d}"),
    Wording("{name} earns {a} coins a week for {b} weeks and spends {c} a week for {d} weeks. How "
            "much is saved?", "{a}*{b}-{c}*{d}"),
    Wording("{a} {thing} cost {p} each and {b} cost {q} each. {name} has a voucher of {c}. What is "
            "to pay?", "{a}*{p}+{b}*{q}-{c}"),
    Wording("A train has {a} seats in each of {b} cars. {c} people get on, {d} get off. How many "
            "seats are free?", "{a}*{b}-{c}+{d}"),
    Wording("A field is {a} m by {b} m. A pond of {c} m by {d} m is cut out. What area is left?",
            "{a}*{b}-{c}*{d}"),
    Wording("{k} friends share the cost of {a} {thing} at {b} coins and a fee of {c}. What does "
            "each pay?", "({a}*{b}+{c})/{k}"),
)  # fmt: skip

LEVELS: Final = {"easy": (EASY, (2,)), "medium": (MEDIUM, (2, 3)), "hard": (HARD, (3,))}
"""Wordings and the digits of a number, by difficulty."""


def math_task(rng: np.random.Generator, difficulty: str = "mixed") -> Task:
    """One problem; its answer is positive, and whole or, where prices occur, has few decimals."""
    level = str(rng.choice(list(LEVELS))) if difficulty == "mixed" else difficulty
    wordings, digits = LEVELS[level]
    wording = wordings[rng.integers(len(wordings))]
    names = [name for _, name, _, _ in Formatter().parse(wording.text) if name]
    while True:
        slots = {name: _fill(name, digits, rng) for name in names}
        expression = wording.expression.format(**slots)
        answer = evaluate(expression)
        if (_MONEY if "p" in slots else _WHOLE).fullmatch(answer):
            break
    return Task(
        wording.text.format(**slots),
        answer,
        meta={"difficulty": level, "expression": expression},
        reference=(tool_call(expression), f"Answer: {answer}"),
    )


def tool_call(expression: str) -> str:
    """The words that ask the calculator, as Hermes JSON."""
    call = {"name": "calculator", "arguments": {"expression": expression}}
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


def _fill(slot: str, digits: tuple[int, ...], rng: np.random.Generator) -> str:
    if slot in ("name", "thing"):
        words = NAMES if slot == "name" else THINGS
        return words[rng.integers(len(words))]
    if slot == "k":
        return str(rng.integers(3, 10))
    if slot in ("p", "q"):
        return f"{rng.integers(2, 100)}.{rng.integers(1, 20) * 5:02d}"
    size = digits[rng.integers(len(digits))]
    return str(rng.integers(10 ** (size - 1) + 1, 10**size))
