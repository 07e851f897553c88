"""How the tiny policy plays code_math.

In    a task of code_math
Out   SUBJECT: the habits, and what Python says to a program that is known
Not   running anything: a program that is neither the reference nor a bare number gets no result
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from agentrl.formats.hermes import parse
from agentrl.task import Task
from agentrl.tiny.demonstrations import Heard, Part, Subject, gold, guess, later, misread

_NUMBER: Final = re.compile(r"\d+")
_BARE: Final = re.compile(r"print\((\d+)\)")


def right(task: Task, rng: np.random.Generator) -> list[Part]:
    """Run the whole program and read the result."""
    answers = gold(task)
    return [Part(a, p, a) for a, p in zip(answers, programs_of(task), strict=True)]


def part(task: Task, rng: np.random.Generator) -> list[Part]:
    """Have a number of the question printed and take that for the answer."""
    numbers = _NUMBER.findall(str(task.prompt))
    return [_printed(numbers[rng.integers(len(numbers))]) for _ in range(1 + len(later(task)))]


def programs_of(task: Task) -> list[str]:
    """The reference's program for each question."""
    turns = [parse(text) for text in task.reference or ()]
    return [SUBJECT.asked(turn) for turn in turns if turn.calls]


def hear(task: Task, question: int, asked: str) -> Heard | None:
    """What Python says, without asking it."""
    if asked == programs_of(task)[question]:
        return Heard(gold(task)[question], "right")
    bare = _BARE.fullmatch(asked)
    return Heard(bare[1], "part") if bare else None


def _printed(number: str) -> Part:
    return Part(number, f"print({number})", number)


SUBJECT: Final = Subject(
    "code_math",
    "python",
    "code",
    {
        "right": right,
        "part": part,
        "misread": lambda task, rng: misread(right(task, rng), rng),
        "guess": guess,
    },
    hear,
)
