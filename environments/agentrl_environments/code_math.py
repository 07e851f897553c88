"""Counting, simulating and adding up that is worth a program.

In    problems of `_code_tasks.py`, some of them in two parts
Out   CodeMath: one tool, Python with variables that stay; reward 1 where every answer is exact
Not   partial credit; and no reading of the code: how an answer was found does not matter
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from agentrl.env import ToolEnv
from agentrl.errors import UsageError, suggestion
from agentrl.exact import parse_number
from agentrl.graders import final_answer, math_equal
from agentrl.message import Turn
from agentrl.task import ProceduralTasks, Task, TaskSource
from agentrl.toolbox import Toolbox
from agentrl.trajectory import Stop, Trajectory
from agentrl_environments._code_tasks import KINDS, LEVELS, code_task, kinds_of, level_of
from agentrl_tools.python import Python

SIZES = {"train": 100_000, "test": 2_000}


class CodeMath(ToolEnv):
    """Problems for a few lines of Python, in a session that keeps its variables."""

    max_turns = 10
    system_prompt = (
        "Solve the problem with Python. Variables stay until the end. "
        "End with Answer: and the number."
    )

    def __init__(
        self, kind: str = "mixed", difficulty: str = "mixed", unsafe: bool = False
    ) -> None:
        """Choose one kind of problems, a level, or all.

        Args:
            kind: One of the kinds, or mixed.
            difficulty: easy, medium, hard or mixed.
            unsafe: Run code even where this machine cannot hold it: it may then do whatever
                this process may.
        """
        for name, value, words in (("kind", kind, KINDS), ("difficulty", difficulty, LEVELS)):
            known = ("mixed", *words)
            if value not in known:
                hint = suggestion(value, known, f"There are {', '.join(known)}.")
                raise UsageError(f"code_math: {name} {value!r} is unknown. {hint}")
        if kind != "mixed" and kind not in kinds_of(difficulty):
            raise UsageError(
                f"code_math: kind {kind} is {level_of(kind)}, not {difficulty}. "
                "Give one of the two."
            )
        self.kind, self.difficulty = kind, difficulty
        self.box = Python(unsafe=unsafe)
        self._asked = 1

    @classmethod
    def tasks(cls, split: str) -> TaskSource:
        """Problems of all kinds."""
        return ProceduralTasks(code_task, SIZES[split], 0, split=split)

    def task_source(self, split: str) -> TaskSource:
        """Problems of the chosen kind."""
        chosen = partial(code_task, kind=self.kind, difficulty=self.difficulty)
        return ProceduralTasks(chosen, SIZES[split], 0, split=split)

    def toolboxes(self) -> Sequence[Toolbox]:
        """Python with variables that stay."""
        return (self.box,)

    def start(self, task: Task) -> None:
        """Begin with the first part."""
        self._asked = 1

    def reply(self, turn: Turn) -> str | None:
        """Ask the next part, whatever was said to the last one."""
        assert self.task is not None
        questions = [self.task.prompt, *(self.task.meta or {})["later"]]
        if self._asked >= len(questions):
            return None
        self._asked += 1
        return str(questions[self._asked - 1])

    def reward(self, task: Task, trajectory: Trajectory) -> dict[str, float]:
        """1 where each part was answered with its exact number, written out.

        A turn that was cut gives none: its last number is one of those it was thinking about.
        """
        if trajectory.stop is not Stop.ANSWER:
            return {"correct": 0.0}
        said = [turn.text for turn in trajectory.turns if not turn.calls]
        right = len(said) == len(task.answer) and all(map(_is_number, task.answer, said))
        return {"correct": float(right)}


def _is_number(gold: str, text: str) -> bool:
    answer = final_answer(text)
    if answer is None or "/" in answer or parse_number(answer) is None:
        return False
    return math_equal(gold, answer).correct is True
