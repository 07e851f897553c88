"""Facts in a log that is longer than anybody likes to read.

In    questions of `_log_tasks.py`, a length, and whether the log can be searched
Out   LongLog: pages to read, and a search that names pages; reward 1 for the exact numbers
Not   a way around the reading: what a search gives are pages, never lines
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from agentrl.env import ToolEnv
from agentrl.errors import ToolError, UsageError, suggestion
from agentrl.graders import final_answer
from agentrl.task import ProceduralTasks, Task, TaskSource
from agentrl.toolbox import Toolbox
from agentrl.tooling import tool
from agentrl.trajectory import Stop, Trajectory
from agentrl_environments._calls import answered, called
from agentrl_environments._log_tasks import LEVELS, Fact, Question, make_question
from agentrl_environments._log_text import Shape, shape_of, write_log

SIZES = {"train": 100_000, "test": 2_000}
TOKENS, PAGE, NEEDLES = (1000, 32_000), (100, 32_000), 12
MAX_PATTERN = 100
"""Characters."""
_LINE_CHARS: Final = 60
_SHOWN: Final = 40
_THOUSANDS: Final = re.compile(r"\d{1,3}(,\d{3})+")


class Log:
    """The log of an episode: tools read it, `start` writes it."""

    def __init__(self, shape: Shape) -> None:
        """Keep the shape; there are no lines yet."""
        self.shape = shape
        self.lines: list[str] = []

    def page(self, number: int) -> list[str]:
        """Lines of a page, from 1."""
        return self.lines[(number - 1) * self.shape.page : number * self.shape.page]


class Reading(Toolbox):
    """Read a log."""

    def __init__(self, log: Log) -> None:
        """Read this log."""
        self.log = log

    @tool
    def read(self, page: int) -> str:
        """Read a page of the log."""
        pages = self.log.shape.pages
        if not 1 <= page <= pages:
            raise ToolError(f"read: there is no page {str(page)[:20]}. Pages are 1 to {pages}.")
        return "\n".join(self.log.page(page))


class Searching(Toolbox):
    """Search a log."""

    def __init__(self, log: Log) -> None:
        """Search this log."""
        self.log = log

    @tool
    def grep(self, text: str) -> str:
        """Count the lines with a text on each page. `*` stands for anything."""
        if len(text) > MAX_PATTERN:
            raise ToolError(f"grep: the text is too long. At most {MAX_PATTERN} characters.")
        pieces = [piece for piece in text.lower().split("*") if piece.strip()]
        if not pieces:
            raise ToolError("grep: the text is empty. Give a word or a name.")
        found = []
        for number in range(1, self.log.shape.pages + 1):
            hits = sum(_holds(line.lower(), pieces) for line in self.log.page(number))
            found += [f"page {number}: {hits}"] * (hits > 0)
        more = [f"and {len(found) - _SHOWN} more pages"] * (len(found) > _SHOWN)
        return "\n".join(found[:_SHOWN] + more) or "No line has this text."


class LongLog(ToolEnv):
    """Find, count and compare facts in tool outputs of thousands of tokens."""

    system_prompt = (
        "Answer from the log. A later line overrides an earlier one. "
        "End with Answer: and the number, or numbers with commas."
    )

    def __init__(
        self,
        difficulty: str = "mixed",
        tokens: int = 4000,
        page: int = 1500,
        needles: int = 0,
        grep: bool = True,
    ) -> None:
        """Choose questions and the length of the log.

        Args:
            difficulty: easy, medium, hard or mixed.
            tokens: About so many are in the log, 1000 to 32000.
            page: About so many are in a page, which is one tool result.
            needles: Lines that a question hangs on, up to 12; 0 for what its difficulty asks.
            grep: Whether pages can be searched; without it the whole log must be read.

        Raises:
            UsageError: An option is out of range.
        """
        known = ("mixed", *LEVELS)
        if difficulty not in known:
            hint = suggestion(difficulty, known, f"There are {', '.join(known)}.")
            raise UsageError(f"long_log: difficulty {difficulty!r} is unknown. {hint}")
        for name, value, (low, high) in (
            ("tokens", tokens, TOKENS), ("page", page, PAGE), ("needles", needles, (0, NEEDLES)),
        ):  # fmt: skip
            if not low <= value <= high:
                raise UsageError(f"long_log: {name} is {value}. Give {low} to {high}.")
        self.difficulty, self.needles, self.grep = difficulty, needles, grep
        self.log = Log(shape_of(tokens, page))
        pages = self.log.shape.pages
        self.max_turns, self.max_tool_calls = pages + 8, pages + 32
        self.max_result_chars = self.log.shape.page * _LINE_CHARS

    @classmethod
    def tasks(cls, split: str) -> TaskSource:
        """Questions of all difficulties about logs of the usual length."""
        return cls().task_source(split)

    def task_source(self, split: str) -> TaskSource:
        """Questions as chosen; the same ones at every length."""
        make = partial(
            log_task,
            difficulty=self.difficulty,
            needles=self.needles,
            shape=self.log.shape,
            grep=self.grep,
        )
        return ProceduralTasks(make, SIZES[split], 0, split=split)

    def toolboxes(self) -> Sequence[Toolbox]:
        """Reading, and searching where that is allowed."""
        return [Reading(self.log), *([Searching(self.log)] if self.grep else [])]

    def start(self, task: Task) -> str:
        """Write the log and say how many pages it has."""
        meta = task.meta or {}
        facts = [Fact(minute, text) for minute, text in meta["facts"]]
        self.log.lines = write_log(meta["log"], facts, meta["names"], self.log.shape)
        pages = self.log.shape.pages
        return f"The log has {pages} page{'s' * (pages > 1)}."

    def release(self) -> None:
        """Forget the log."""
        self.log.lines = []

    def reward(self, task: Task, trajectory: Trajectory) -> dict[str, float]:
        """1 where the last turn gives exactly the numbers, in their order, and was not cut."""
        answer = final_answer(trajectory.answer) if trajectory.stop is Stop.ANSWER else None
        return {"correct": float(_numbers(answer or "", task.answer) == task.answer.split(", "))}


def log_task(
    rng: np.random.Generator,
    difficulty: str = "mixed",
    needles: int = 0,
    shape: Shape | None = None,
    grep: bool = True,
) -> Task:
    """One question about a log of its own; the shape decides the reference alone."""
    number = int(rng.integers(1_000_000, 10_000_000))
    level = list(LEVELS)[number % len(LEVELS)] if difficulty == "mixed" else difficulty
    question = make_question(number, level, needles)
    shape = shape or shape_of(4000, 1500)
    return Task(
        f"Log {number}. {question.words}",
        question.answer,
        meta={
            "difficulty": level,
            "tags": [question.kind],
            "log": number,
            "facts": [[fact.minute, fact.text] for fact in question.facts],
            "names": list(question.names),
        },
        reference=_searched(question, shape) if grep else _read_through(question, shape),
    )


def _read_through(question: Question, shape: Shape) -> tuple[str, ...]:
    """Every page, one a turn."""
    pages = range(1, shape.pages + 1)
    return (*(called("read", page=page) for page in pages), answered(question.answer))


def _searched(question: Question, shape: Shape) -> tuple[str, ...]:
    """Look for the names, read the pages that have them, and go on from there."""
    turns: list[str] = []
    seen: set[int] = set()
    for names in question.rounds:
        turns.append("\n".join(called("grep", text=name) for name in names))
        pages = {
            shape.page_of(i, question.facts)
            for i, fact in enumerate(question.facts)
            if any(name in fact.text for name in names)
        }
        turns += [called("read", page=page) for page in sorted(pages - seen)]
        seen |= pages
    return (*turns, answered(question.answer))


def _holds(line: str, pieces: Sequence[str]) -> bool:
    """Whether a line has all pieces one after the other: each is looked for once."""
    place = 0
    for piece in pieces:
        place = line.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    return True


def _numbers(answer: str, gold: str) -> list[str]:
    """The numbers of an answer; where one is asked for, commas may group its digits."""
    if "," not in gold and _THOUSANDS.fullmatch(answer.strip()):
        return [answer.strip().replace(",", "")]
    return [part.strip() for part in answer.split(",")]
