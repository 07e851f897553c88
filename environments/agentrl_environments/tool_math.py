"""Arithmetic that is worth a calculator, and word problems that take several tools.

In    problems of `_math_tasks.py`: easy, medium, hard, or a mixture; or of `_math_chains.py`
Out   ToolMath: one tool, or up to nine; reward 1 for the exact number, else 0
Not   partial credit: a call earns nothing by itself, and neither does unfinished arithmetic
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from agentrl.author import at_once
from agentrl.env import ToolEnv
from agentrl.errors import UsageError, suggestion
from agentrl.exact import parse_number
from agentrl.graders import final_answer, is_number, math_equal
from agentrl.task import ProceduralTasks, Task, TaskSource
from agentrl.toolbox import Toolbox
from agentrl.tooling import tool
from agentrl.trajectory import Stop, Trajectory
from agentrl_environments._math_chains import MOST, SHAPES, chain_task
from agentrl_environments._math_tasks import LEVELS, math_task
from agentrl_environments._math_warehouse import Gossip, Office
from agentrl_tools.calculator import evaluate, is_short

SIZES = {"train": 100_000, "test": 2_000}
TURNS = 2 * MOST
"""Where a problem may need several calls."""
WITH_TOOLS = "Solve the problem with the tools. End with Answer: and the number."


class ToolMath(ToolEnv):
    """Arithmetic with a calculator, in many wordings; or word problems with several tools."""

    max_turns = 6
    system_prompt = "Solve the problem with the calculator. End with Answer: and the number."

    def __init__(self, difficulty: str = "mixed", calls: int = 0) -> None:
        """Choose problems.

        Args:
            difficulty: easy, medium or hard, or mixed from these: the calculator is all there is.
                Or tools, chain, distract, or steps, which is mixed from those.
            calls: How many calls a problem of these needs, up to 8; 0 for any number.

        Raises:
            UsageError: An option is unknown, or does not go with the other.
        """
        known = ("mixed", *LEVELS, *SHAPES)
        if difficulty not in known:
            hint = suggestion(difficulty, known, f"There are {', '.join(known)}.")
            raise UsageError(f"tool_math: difficulty {difficulty!r} is unknown. {hint}")
        if not 0 <= calls <= MOST:
            raise UsageError(f"tool_math: calls is {calls}. Give 1 to {MOST}, or 0 for any number.")
        if calls and difficulty not in SHAPES:
            raise UsageError(
                f"tool_math: calls is {calls}, but {difficulty} problems need one. "
                f"Leave it out, or choose the difficulty {', '.join(SHAPES)}."
            )
        self.difficulty, self.calls = difficulty, calls
        if difficulty in SHAPES:
            self.max_turns = TURNS
            self.system_prompt = (
                "Solve the problem with the tools. End with Answer: and the number."
            )

    @classmethod
    def tasks(cls, split: str) -> TaskSource:
        """Problems of all difficulties."""
        return ProceduralTasks(math_task, SIZES[split], 0, split=split)

    def task_source(self, split: str) -> TaskSource:
        """Problems as chosen."""
        make = partial(math_task, difficulty=self.difficulty)
        if self.difficulty in SHAPES:
            make = partial(chain_task, level=self.difficulty, calls=self.calls)
        return ProceduralTasks(make, SIZES[split], 0, split=split)

    def toolboxes(self) -> Sequence[Toolbox]:
        """What looks up facts, and, where there are distractions, what does not help."""
        if self.difficulty not in SHAPES:
            return []
        return [Office(), *([Gossip()] if self.difficulty in ("distract", "steps") else [])]

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
