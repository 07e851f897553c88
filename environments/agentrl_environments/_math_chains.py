"""Word problems that take one to eight calls, most of them for facts that are not told.

In    a random generator, a level, and how many calls are needed
Out   Task: words, the exact answer; in `meta` the facts that tools look up; a reference that calls
      exactly as often as is needed
Not   one expression: numbers are missing until a tool has given them

`errands` ask several tools and add up; a `chain` finds in each order where to look next.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from agentrl.task import Task
from agentrl_environments._math_warehouse import (
    CURRENCIES,
    GOODS,
    PEOPLE,
    TOWNS,
    Facts,
    draw_facts,
)
from agentrl_tools.calculator import evaluate

MOST: Final = 8
"""Calls."""
SHAPES: Final = {
    "tools": ("errands",),
    "chain": ("chain",),
    "distract": ("errands+asides", "chain+asides"),
    "steps": ("errands", "chain", "errands+asides", "chain+asides"),
}
"""Kinds of problems by level; asides are numbers and names that do not matter."""
_NUMBER: Final = re.compile(r"\d+")
_HOP: Final = 2
"""Calls of one link of a chain: the number of the next order, and that order."""


@dataclass
class _Draft:
    """A problem being written."""

    rng: np.random.Generator
    facts: Facts
    words: list[str] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    """Names that were spoken of."""

    def free(self, names: tuple[str, ...]) -> list[str]:
        """Those not spoken of yet."""
        return [name for name in names if name not in self.used]

    def name(self, names: tuple[str, ...]) -> str:
        """One that was not used before, while there are such."""
        left = self.free(names) or names
        chosen = left[self.number(0, len(left) - 1)]
        self.used.add(chosen)
        return chosen

    def number(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def say(self, *calls: tuple[str, str, object]) -> None:
        """A turn that makes calls: a tool, its argument, the value."""
        self.turns.append("\n".join(_called(*call) for call in calls))

    def work_out(self, expression: str) -> int:
        """A turn that asks the calculator."""
        self.say(("calculator", "expression", expression))
        return int(evaluate(expression))


@dataclass(frozen=True, slots=True)
class _Term:
    """One line of a bill: what is looked up, and how it counts."""

    words: str
    tool: str
    argument: str
    names: tuple[str, ...]


TERMS: Final = (
    _Term("{n} boxes of {name}", "price", "item", GOODS),
    _Term("a toll of {n} coins for each gram of one box of {name}", "weight", "item", GOODS),
    _Term("a carriage to {name} at {n} coins a km", "distance", "town", TOWNS),
)


def chain_task(rng: np.random.Generator, level: str, calls: int = 0) -> Task:
    """One problem of a level; with 0 calls the number of them is drawn."""
    shape, _, asides = str(rng.choice(SHAPES[level])).partition("+")
    needed = calls or int(rng.integers(1, MOST + 1))
    while True:
        draft = _Draft(rng, draw_facts(rng))
        answer = str(_MAKERS[shape](draft, needed))
        words = " ".join(_with_asides(draft) if asides else draft.words)
        if answer not in _NUMBER.findall(words):
            break
    return Task(
        words,
        answer,
        meta={
            "difficulty": level,
            "tags": [shape, f"calls-{needed}", *["asides"] * bool(asides)],
            "calls": needed,
            "facts": draft.facts,
        },
        reference=(*draft.turns, f"Answer: {answer}"),
    )


def _errands(draft: _Draft, calls: int) -> int:
    """Lookups that can be made at once, and a bill; one call alone is a question."""
    if calls == 1:
        return _question(draft)
    exchange = calls > 2 and draft.rng.uniform() < 0.5
    terms = [_line(draft) for _ in range(calls - 1 - exchange)]
    currency = draft.name(CURRENCIES)
    *most, last = [words for words, *_ in terms]
    listed = f"{', '.join(most)} and {last}" if most else last
    draft.words += [
        f"{draft.name(PEOPLE)} pays for {listed}.",
        f"What is the total in {currency if exchange else 'coins'}?",
    ]
    asked = [(tool, argument, name) for _, tool, argument, name, _ in terms]
    draft.say(*asked, *[("rate", "currency", currency)] * exchange)
    total = "+".join(
        f"{n}*{draft.facts[tool][str(name)]}"
        for (tool, _, name), (*_, n) in zip(asked, terms, strict=True)
    )
    rate = draft.facts["rate"][currency]
    return draft.work_out(f"({total})*{rate}" if exchange else total)


def _line(draft: _Draft) -> tuple[str, str, str, str, int]:
    # A name that came before would need no other call.
    terms = [term for term in TERMS if draft.free(term.names)]
    term = terms[draft.number(0, len(terms) - 1)]
    name, n = draft.name(term.names), draft.number(12, 99)
    return term.words.format(n=n, name=name), term.tool, term.argument, name, n


def _question(draft: _Draft) -> int:
    """What a single lookup answers."""
    ask, tool, argument, names = _QUESTIONS[draft.number(0, len(_QUESTIONS) - 1)]
    name = draft.name(names)
    draft.words.append(ask.format(name=name))
    draft.say((tool, argument, name))
    return int(draft.facts[tool][name])


_QUESTIONS: Final = (
    ("What does a box of {name} weigh, in grams?", "weight", "item", GOODS),
    ("How many km is it to {name}?", "distance", "town", TOWNS),
)


def _chain(draft: _Draft, calls: int) -> int:
    """Orders that lead to each other, and a question about the last one."""
    fitting = [end for end in ENDINGS if calls > end and (calls - 1 - end) % _HOP == 0]
    ending = fitting[draft.number(0, len(fitting) - 1)]
    item, boxes = _order(draft, draft.number(1001, 9999))
    for _ in range((calls - 1 - ending) // _HOP):
        item, boxes = _hop(draft, boxes)
    currency = draft.name(CURRENCIES)
    draft.words.append(ENDINGS[ending].format(currency=currency))
    return boxes if ending == 0 else _end(draft, ending, item, boxes, currency)


ENDINGS: Final = {
    0: "How many boxes does that order hold?",
    1: "How many grams does one of its boxes weigh?",
    2: "What does all that the order holds cost in coins?",
    3: "What does all that the order holds cost in {currency}?",
}
"""The question, by the calls it takes once the order is known."""


def _end(draft: _Draft, ending: int, item: str, boxes: int, currency: str) -> int:
    if ending == 1:
        draft.say(("weight", "item", item))
        return int(draft.facts["weight"][item])
    exchange = ending == 3
    draft.say(("price", "item", item), *[("rate", "currency", currency)] * exchange)
    price, rate = draft.facts["price"][item], draft.facts["rate"][currency]
    return draft.work_out(f"{boxes}*{price}" + f"*{rate}" * exchange)


def _order(draft: _Draft, number: int) -> tuple[str, int]:
    """Write an order and look at it."""
    if not draft.turns:
        draft.words.append(f"Look at order {number}.")
    item, boxes = draft.name(GOODS), draft.number(101, 999)
    draft.facts["order"][str(number)] = f"{boxes} boxes of {item}"
    draft.say(("order", "number", number))
    return item, boxes


def _hop(draft: _Draft, boxes: int) -> tuple[str, int]:
    """The order whose number follows from how many boxes the one before holds."""
    a, b = draft.number(12, 99), draft.number(101, 9999)
    while str(boxes * a + b) in draft.facts["order"]:
        b += 1
    draft.words.append(
        f"Multiply the number of its boxes by {a} and add {b}: look at the order of that number."
    )
    return _order(draft, draft.work_out(f"{boxes}*{a}+{b}"))


ASIDES: Final = (
    "{person} is {small} years old.",
    "The warehouse has {large} shelves.",
    "Yesterday a box of {item} cost {small} coins.",
    "It is {small} degrees in {town}.",
    "Shelf {number} is empty.",
    "{person} has {large} boxes of {item} at home.",
    "Last year a coin was {small} {currency}.",
    "The road to {town} has {small} bridges.",
)
"""Sentences that do not matter; none says what the problem asks for."""


def _with_asides(draft: _Draft) -> list[str]:
    """The words, and two or three asides before the question."""
    chosen = draft.rng.choice(len(ASIDES), draft.number(2, 3), replace=False)
    said = [
        ASIDES[int(i)].format(
            person=draft.name(PEOPLE),
            item=draft.name(GOODS),
            town=draft.name(TOWNS),
            currency=draft.name(CURRENCIES),
            small=draft.number(12, 99),
            large=draft.number(101, 999),
            number=draft.number(1001, 9999),
        )
        for i in chosen
    ]
    at, (*told, question) = draft.number(0, 1), draft.words
    return [*said[:at], *told, *said[at:], question]


def _called(tool: str, argument: str, value: object) -> str:
    call = json.dumps({"name": tool, "arguments": {argument: value}})
    return f"<tool_call>\n{call}\n</tool_call>"


_MAKERS: Final = {"errands": _errands, "chain": _chain}
