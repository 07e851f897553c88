"""Conversations that teach the tiny policy.

In    a task, a habit, a random generator
Out   chat messages, and which of their tokens the policy says
Not   a hidden handicap: a habit is drawn without looking at the task
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentrl.message import AssistantTurn, Message, ToolCallDict
from agentrl.task import Task


@dataclass(frozen=True, slots=True)
class Part:
    """What is said to one question: at most one call, and the answer."""

    answer: str
    asked: str | None = None
    """What the tool is asked; None where it is not used."""
    result: str = ""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a tool says to a call, and which habit would have made it: right, part, or none."""

    result: str
    habit: str


Habit = Callable[[Task, np.random.Generator], Sequence[Part]]
"""A part for each question of a task."""


@dataclass(frozen=True)
class Subject:
    """An environment that is taught: how it is played, rightly and wrongly."""

    env: str
    tool: str
    argument: str
    """The only one of its tool."""
    habits: Mapping[str, Habit]
    """right, and three ways to be wrong: part, misread, guess."""
    hear: Callable[[Task, int, str], Heard | None]
    """A task, the number of the question from 0, what the tool is asked; None if it can't tell."""

    def asked(self, turn: AssistantTurn) -> str:
        """What the first call of a turn asks."""
        return str(turn.calls[0].arguments.get(self.argument, ""))


def demonstrate(
    subject: Subject,
    task: Task,
    system: str,
    shares: Mapping[str, float],
    rng: np.random.Generator,
) -> list[Message]:
    """The task played by a habit drawn with the given shares."""
    names = list(shares)
    habit = subject.habits[names[rng.choice(len(names), p=list(shares.values()))]]
    return conversation(subject, task, system, habit(task, rng))


def conversation(subject: Subject, task: Task, system: str, parts: Sequence[Part]) -> list[Message]:
    """What is said to each question, as chat messages."""
    messages = [Message(role="system", content=system), *task.opening()]
    for i, part in enumerate(parts):
        if i:
            messages.append(Message(role="user", content=later(task)[i - 1]))
        if part.asked is not None:
            messages += [_call(subject, part.asked), result(subject, part.result)]
        messages.append(Message(role="assistant", content=f"Answer: {part.answer}"))
    return messages


def result(subject: Subject, content: str) -> Message:
    """What the subject's tool says."""
    return Message(role="tool", content=content, name=subject.tool)


def later(task: Task) -> Sequence[str]:
    """The questions that are asked after the first one."""
    return list((task.meta or {}).get("later", ()))


def gold(task: Task) -> list[str]:
    """The right answer to each question."""
    answers: Any = task.answer
    return [answers] if isinstance(answers, str) else list(answers)


def misread(parts: Sequence[Part], rng: np.random.Generator) -> list[Part]:
    """The same calls, and one digit of each answer wrong."""
    return [Part(_one_digit_off(p.answer, rng), p.asked, p.result) for p in parts]


def guess(task: Task, rng: np.random.Generator) -> list[Part]:
    """Answer at once with numbers of about the right size."""
    return [Part(str(1 + int(float(answer) * rng.uniform(0.3, 1.7)))) for answer in gold(task)]


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


def _call(subject: Subject, asked: str) -> Message:
    call: ToolCallDict = {
        "type": "function",
        "function": {"name": subject.tool, "arguments": {subject.argument: asked}},
    }
    return Message(role="assistant", content="", tool_calls=[call])


def _one_digit_off(answer: str, rng: np.random.Generator) -> str:
    digits = [i for i, mark in enumerate(answer) if mark.isdigit()]
    at = digits[rng.integers(len(digits))]
    wrong = (int(answer[at]) + int(rng.integers(1, 10))) % 10
    return f"{answer[:at]}{wrong}{answer[at + 1 :]}"
