"""Arithmetic that is worth a calculator.

In    problems of `_math_tasks.py`: easy, medium, hard, or a mixture
Out   ToolMath: one tool; reward 1 for the exact number, else 0
Not   partial credit: a call earns nothing by itself, and neither does unfinished arithmetic
"""

from __future__ import annotations

from functools import partial

from agentrl.author import at_once
from agentrl.env import ToolEnv
from agentrl.errors import UsageError, suggestion
from agentrl.exact import parse_number
from agentrl.graders import final_answer, is_number, math_equal
from agentrl.task import ProceduralTasks, Task, TaskSource
from agentrl.tooling import tool
from agentrl.trajectory import Stop, Trajectory
from agentrl_environments._math_tasks import LEVELS, math_task
from agentrl_tools.calculator import evaluate, is_short

SIZES = {"train": 100_000, "test": 2_000}


class ToolMath(ToolEnv):
    """Arithmetic with a calculator, in many wordings."""

    max_turns = 6
    system_prompt = "Solve the problem with the calculator. End with Answer: and the number."

    def __init__(self, difficulty: str = "mixed") -> None:
        """Choose easy, medium, hard or mixed problems."""
        known = ("mixed", *LEVELS)
        if difficulty not in known:
            hint = suggestion(difficulty, known, f"There are {', '.join(known)}.")
            raise UsageError(f"tool_math: difficulty {difficulty!r} is unknown. {hint}")
        self.difficulty = difficulty

    @classmethod
    def tasks(cls, split: str) -> TaskSource:
        """Problems of all difficulties."""
        return ProceduralTasks(math_task, SIZES[split], 0, split=split)

    def task_source(self, split: str) -> TaskSource:
        """Problems of the chosen difficulty."""
        make = partial(math_task, difficulty=self.difficulty)
        return ProceduralTasks(make, SIZES[split], 0, split=split)

    @tool(timeout=2.0)
    @at_once(is_short)
    def calculator(self, expression: str) -> str:
        """Evaluate arithmetic exactly."""
        return evaluate(expression)

    @at_once(lambda task, trajectory: is_number(task.answer, trajectory.answer))
    def reward(self, task: Task, trajectory: Trajectory) -> dict[str, float]:
        """1 where the last turn gives the exact number, written out.

        A turn that was cut gives none: its last number is one of those it was thinking about.
        """
        answer = final_answer(trajectory.answer) if trajectory.stop is Stop.ANSWER else None
        if answer is None or "/" in answer or parse_number(answer) is None:
            return {"correct": 0.0}
        return {"correct": float(math_equal(task.answer, answer).correct is True)}
