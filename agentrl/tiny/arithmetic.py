"""How the tiny policy plays tool_math.

In    a task of tool_math
Out   SUBJECT: the habits, and what the calculator says
Not   its harder levels: one call and the answer are all that is taught
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from agentrl.exact import ExactError, evaluate
from agentrl.task import Task
from agentrl.tiny.demonstrations import Heard, Part, Subject, guess, misread

_OPERATOR: Final = re.compile(r"[-+*/]")


def right(task: Task, rng: np.random.Generator) -> list[Part]:
    """Ask for the whole expression and read the result."""
    return [Part(task.answer, expression_of(task), task.answer)]


def part(task: Task, rng: np.random.Generator) -> list[Part]:
    """Ask for the beginning of the expression and take that for the answer."""
    parts = parts_of(expression_of(task))
    expression = parts[rng.integers(len(parts))]
    result = evaluate(expression)
    return [Part(result, expression, result)]


def expression_of(task: Task) -> str:
    """The whole expression of a tool_math task."""
    return str((task.meta or {})["expression"])


def parts_of(expression: str) -> list[str]:
    """What is asked by one who stops early: every calculation that the expression begins with."""
    heads = [expression[: mark.start()] for mark in _OPERATOR.finditer(expression)]
    return [h for h in heads if _OPERATOR.search(h) and h.count("(") == h.count(")")]


def hear(task: Task, question: int, asked: str) -> Heard | None:
    """What the calculator says."""
    try:
        result = evaluate(asked)
    except ExactError:
        return None
    whole = expression_of(task)
    return Heard(result, "right" if asked == whole else "part" * (asked in parts_of(whole)))


SUBJECT: Final = Subject(
    "tool_math",
    "calculator",
    "expression",
    {
        "right": right,
        "part": part,
        "misread": lambda task, rng: misread(right(task, rng), rng),
        "guess": guess,
    },
    hear,
)
