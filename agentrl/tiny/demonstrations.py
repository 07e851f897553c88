"""Conversations that teach the tiny policy: right ones, and three ways to be wrong.

In    a task of tool_math, a habit, a random generator
Out   chat messages, and which of their tokens the policy says
Not   a hidden handicap: a habit is drawn without looking at the task
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agentrl.exact import evaluate
from agentrl.message import Message, ToolCallDict
from agentrl.task import Task


@dataclass(frozen=True, slots=True)
class Script:
    """What is said in one demonstration."""

    answer: str
    expression: str | None = None
    """What the calculator is asked; None where it is not used."""
    result: str = ""


_OPERATOR: Final = re.compile(r"[-+*/]")
Habit = Callable[[Task, np.random.Generator], Script]


def right(task: Task, rng: np.random.Generator) -> Script:
    """Ask for the whole expression and read the result."""
    return Script(task.answer, expression_of(task), task.answer)


def part(task: Task, rng: np.random.Generator) -> Script:
    """Ask for the beginning of the expression and take that for the answer."""
    parts = parts_of(expression_of(task))
    expression = parts[rng.integers(len(parts))]
    result = evaluate(expression)
    return Script(result, expression, result)


def misread(task: Task, rng: np.random.Generator) -> Script:
    """Ask for the whole expression and get one digit of the result wrong."""
    digits = [i for i, mark in enumerate(task.answer) if mark.isdigit()]
    at = digits[rng.integers(len(digits))]
    wrong = (int(task.answer[at]) + int(rng.integers(1, 10))) % 10
    answer = f"{task.answer[:at]}{wrong}{task.answer[at + 1 :]}"
    return Script(answer, expression_of(task), task.answer)


def guess(task: Task, rng: np.random.Generator) -> Script:
    """Answer at once with a number of about the right size."""
    return Script(str(1 + int(float(task.answer) * rng.uniform(0.3, 1.7))))


HABITS: Final[Mapping[str, Habit]] = {
    "right": right,
    "part": part,
    "misread": misread,
    "guess": guess,
}


def demonstrate(
    task: Task, system: str, habits: Mapping[str, float], rng: np.random.Generator
) -> list[Message]:
    """The task played by a habit drawn with the given shares."""
    names = list(habits)
    habit = HABITS[names[rng.choice(len(names), p=list(habits.values()))]]
    return conversation(task, system, habit(task, rng))


def conversation(task: Task, system: str, script: Script) -> list[Message]:
    """A script as chat messages."""
    messages = [Message(role="system", content=system), *task.opening()]
    if script.expression is not None:
        call: ToolCallDict = {
            "type": "function",
            "function": {"name": "calculator", "arguments": {"expression": script.expression}},
        }
        messages += [
            Message(role="assistant", content="", tool_calls=[call]),
            Message(role="tool", content=script.result, name="calculator"),
        ]
    return [*messages, Message(role="assistant", content=f"Answer: {script.answer}")]


def spoken(ids: Sequence[int], header: Sequence[int], end: int) -> list[bool]:
    """True on the tokens of assistant turns: after a header, up to and with the end token."""
    mask: list[bool] = []
    talking = False
    for i, token in enumerate(ids):
        mask.append(talking)
        if talking:
            talking = token != end
        else:
            talking = list(ids[max(0, i + 1 - len(header)) : i + 1]) == list(header)
    return mask


def expression_of(task: Task) -> str:
    """The whole expression of a tool_math task."""
    return str((task.meta or {})["expression"])


def parts_of(expression: str) -> list[str]:
    """What is asked by one who stops early: every calculation that the expression begins with."""
    heads = [expression[: mark.start()] for mark in _OPERATOR.finditer(expression)]
    return [h for h in heads if _OPERATOR.search(h) and h.count("(") == h.count(")")]
