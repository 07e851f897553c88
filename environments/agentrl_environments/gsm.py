"""Grade-school word problems, made from templates or of other people's data.

In    reasoning-gym's templates by default; a file, or a data set of Hugging Face
Out   Gsm: a calculator; reward 1 where the answer equals the gold answer, None where
      that can't be decided
Not   partial credit, nor unfinished arithmetic where the gold answer is a number
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from agentrl.author import at_once
from agentrl.env import ToolEnv
from agentrl.errors import UsageError, suggestion
from agentrl.exact import parse_number
from agentrl.graders import final_answer, is_number, math_equal, reward_of
from agentrl.task import ListTasks, ProceduralTasks, Task, TaskSource
from agentrl.toolbox import Toolbox
from agentrl.trajectory import Stop, Trajectory
from agentrl_environments._gsm_rows import Columns, file_tasks, hub_tasks
from agentrl_environments._gsm_symbolic import symbolic_task
from agentrl_tools.calculator import Calculator

SIZES = {"train": 100_000, "test": 2_000}
LEVELS = ("easy", "medium", "hard")
HUB = "hf:"
_DIGITS = re.compile(r"\d[\d,]*(?:\.\d+)?")
_UNFINISHED = re.compile(r"[!^√]|\\|\*\*|[a-z]\(")


class Gsm(ToolEnv):
    """Word problems with a calculator."""

    max_turns = 16
    system_prompt = (
        "Solve the problem step by step, with the calculator for the arithmetic. "
        "End with Answer: and the number alone."
    )

    def __init__(
        self,
        difficulty: str = "mixed",
        source: str = "symbolic",
        file: str = "",
        subset: str = "",
        question: str = "question",
        answer: str = "answer",
    ) -> None:
        """Choose problems.

        Args:
            difficulty: easy, medium, hard, or mixed.
            source: symbolic, or hf: and the name or folder of a data set, such as
                hf:openai/gsm8k, which is downloaded where it is not there yet.
            file: A .jsonl or .parquet file instead; it is split by content.
            subset: Of the data set of Hugging Face, such as main.
            question: The column of questions.
            answer: The column of gold answers, or of solutions that end with #### or a box.
        """
        known = ("mixed", *LEVELS)
        if difficulty not in known:
            hint = suggestion(difficulty, known, f"There are {', '.join(known)}.")
            raise UsageError(f"gsm: difficulty {difficulty!r} is unknown. {hint}")
        if source != "symbolic" and not re.fullmatch(f"{HUB}.+", source):
            raise UsageError(f"gsm: source {source!r} is unknown. Give symbolic or hf:NAME.")
        if file and source != "symbolic":
            raise UsageError("gsm: both file and source are given. Leave one out.")
        self.difficulty, self.source, self.subset = difficulty, source, subset
        self.file = str(Path(file).expanduser().absolute()) if file else ""
        self.columns = Columns(question, answer)

    @classmethod
    def tasks(cls, split: str) -> TaskSource:
        """Problems of all difficulties from templates."""
        return ProceduralTasks(symbolic_task, SIZES[split], 0, split=split)

    def task_source(self, split: str) -> TaskSource:
        """Problems of the chosen source and difficulty."""
        if not self.file and self.source == "symbolic":
            make = partial(symbolic_task, difficulty=self.difficulty)
            return ProceduralTasks(make, SIZES[split], 0, split=split)
        if self.file:
            found = file_tasks(Path(self.file), split, self.columns)
        else:
            found = hub_tasks(self.source.removeprefix(HUB), self.subset, split, self.columns)
        if self.difficulty == "mixed":
            return ListTasks(found)
        levels = [((task.meta or {}).get("difficulty"), task) for task in found]
        if not any(level for level, _ in levels):
            raise UsageError(
                f"gsm: difficulty {self.difficulty!r} can't be told from bare answers. "
                "Leave it out, or name a column of solutions with --env.answer."
            )
        return ListTasks([task for level, task in levels if level == self.difficulty])

    def toolboxes(self) -> Sequence[Toolbox]:
        """A calculator."""
        return (Calculator(),)

    @at_once(lambda task, trajectory: is_number(task.answer, trajectory.answer))
    def reward(self, task: Task, trajectory: Trajectory) -> dict[str, float] | None:
        """1 where the last turn gives the gold answer; one that was cut gives none."""
        answer = final_answer(trajectory.answer) if trajectory.stop is Stop.ANSWER else None
        if answer is None or not is_finished(task.answer, answer):
            return {"correct": 0.0}
        reward = reward_of(math_equal(task.answer, answer))
        return None if reward is None else {"correct": reward}


def is_finished(gold: str, answer: str) -> bool:
    """Whether an answer is worked out: where the gold is a number, it holds one number alone.

    The grader would work 6*7 out by itself, and a policy would learn to leave that to it.
    """
    if parse_number(gold) is None or "/" in gold:
        return True
    return len(_DIGITS.findall(answer)) == 1 and not _UNFINISHED.search(answer)
