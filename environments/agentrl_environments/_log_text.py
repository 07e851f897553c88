"""A log of any length: the lines that matter, among others that look like them.

In    the number of a log, its facts, how many tokens it should have
Out   its lines in the order of time, and on which page a fact stands
Not   a count of tokens: a line is taken for LINE of them, whatever the tokenizer
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from agentrl_environments._log_tasks import DAY, LETTERS, Fact, clock

LINE: Final = 20
"""Tokens of a line: some tokenizers make 18 of it, others 24."""
LOOKALIKES: Final = 3
"""Names of a log that are one letter or two digits away from one that is asked for."""
STRANGERS: Final = 30

_OTHERS: Final = (
    ("crate {} got seal {}", 1000, 9999),
    ("pump {} tripped with code {}", 100, 999),
    ("tank {} lost {} litres", 11, 499),
    ("cart {} moved to bay {}", 100, 999),
    ("cart {} was refused at bay {}", 100, 999),
    ("gauge {} showed {}", 1000, 9999),
    ("truck {} left by gate {}", 100, 999),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """How long a log is, and how it is cut."""

    lines: int
    page: int
    """Lines of a page."""

    @property
    def pages(self) -> int:
        """How many there are."""
        return -(-self.lines // self.page)

    def page_of(self, fact: int, facts: Sequence[Fact]) -> int:
        """The page of a fact, from 1."""
        place = _before(facts[fact], self.lines - len(facts)) + fact
        return place // self.page + 1


def shape_of(tokens: int, page: int) -> Shape:
    """The shape of a log of so many tokens, in pages of so many."""
    return Shape(max(1, tokens // LINE), max(1, page // LINE))


def write_log(number: int, facts: Sequence[Fact], names: Sequence[str], shape: Shape) -> list[str]:
    """All lines; facts are in the order of time, and no other line has one of the names."""
    rng = Random(f"log {number}")
    others = shape.lines - len(facts)
    pool = _pool(rng, names)
    lines: list[str] = []
    written = 0
    for fact in (*facts, None):
        until = others if fact is None else _before(fact, others)
        lines += [f"{clock(DAY * i // others)} {_other(rng, pool)}" for i in range(written, until)]
        written = until
        if fact is not None:
            lines.append(f"{clock(fact.minute)} {fact.text}")
    return lines


def _before(fact: Fact, others: int) -> int:
    """How many of the other lines, which keep equal distances, are earlier than a fact."""
    return -(-fact.minute * others // DAY)


def _other(rng: Random, pool: Sequence[str]) -> str:
    text, low, high = _OTHERS[int(rng.random() * len(_OTHERS))]
    return text.format(
        pool[int(rng.random() * len(pool))], low + int(rng.random() * (high + 1 - low))
    )


def _pool(rng: Random, names: Sequence[str]) -> list[str]:
    """Names of the other lines, some of them easily taken for those that matter."""
    near = [_near(rng, name) for name in names for _ in range(LOOKALIKES)]
    far = [f"{rng.choice(LETTERS)}{rng.randint(100, 999)}" for _ in range(STRANGERS)]
    return [name for name in (*near, *far) if name not in names] or ["A100"]


def _near(rng: Random, name: str) -> str:
    if rng.random() < 0.5:
        return rng.choice(LETTERS) + name[1:]
    return name[:2] + name[:1:-1]
