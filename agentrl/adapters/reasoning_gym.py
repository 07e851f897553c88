"""reasoning_gym/NAME: procedural problems of the package reasoning-gym.

In    the name of a data set; options of its configuration
Out   a ToolEnv: one question, an answer between <answer> and </answer>, graded by the data set
Not   the data set's own split: tasks are drawn by position, and divided by their content

By default only a full score counts. A data set without a grader of its own pays an answer that
merely contains the right one by the share of it that is right, and a policy would learn to list
candidates; `--env.partial 0.1` adds that score, times 0.1, to answers that are not correct.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from agentrl import registry
from agentrl.adapters.making import SIZES, named, refuse_unknown
from agentrl.adapters.scores import refusal, score_apart
from agentrl.author import at_once
from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault, ToolError, UsageError, blame, suggestion
from agentrl.optional import need
from agentrl.task import ProceduralTasks, Task, TaskSource
from agentrl.toolbox import Toolbox
from agentrl.trajectory import Trajectory

POOLS = (200_000, 20_000, 2_000, 500)
"""Entries that a data set is asked to hold; some have a limit, and some make a list of them."""
_SHORT = 10_000
"""Characters of what is looked through for an answer without a thread."""
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_OURS = ("calculator", "partial", "seed")
_EXAMPLES = ("example_answer", "possible_answer")


class ReasoningGym(ToolEnv):
    """Questions of a data set of reasoning-gym."""

    max_turns = 8
    dataset: ClassVar[str] = ""
    config: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def __init__(
        self, calculator: bool = False, partial: float = 0.0, seed: int = 0, **config: Any
    ) -> None:
        """Choose among the problems.

        Args:
            calculator: Offer a calculator.
            partial: What a score of nearly 1 is worth where the answer is not correct.
            seed: Of the data set: another one makes other problems.
            config: Fields of the data set's configuration, such as min_terms.
        """
        if not 0 <= partial < 1:
            raise UsageError(f"--env.partial {partial}: it must be from 0 to below 1.")
        refuse_unknown(f"reasoning_gym/{self.dataset}", config, (*_OURS, *self._fields()))
        self.partial, self.seed, self.given = partial, seed, config
        self._calculator = calculator
        tool = " Use the calculator where it helps." if calculator else ""
        self.system_prompt = (
            f"Answer the question.{tool} End with <answer> your answer </answer>, in the form "
            "that the question asks for."
        )
        self._made  # noqa: B018 (a configuration that can't be is refused now)

    @classmethod
    def tasks(cls, split: str) -> TaskSource:
        """Problems by the default configuration."""
        return cls().task_source(split)

    def task_source(self, split: str) -> TaskSource:
        """Problems by this instance's configuration."""
        return ProceduralTasks(self._problem, SIZES[split], self.seed, split=split)

    def toolboxes(self) -> Sequence[Toolbox]:
        """The calculator, where it was asked for."""
        return (registry.TOOLBOXES.make("calculator", {}),) if self._calculator else ()

    @at_once(lambda task, trajectory: _is_plain(task, trajectory.answer))
    def reward(self, task: Task, trajectory: Trajectory) -> dict[str, float]:
        """1 for a full score; below it `partial` times the score."""
        answer = _answer(trajectory.answer)
        if not answer or answer == task.answer:
            score = float(bool(answer))
        else:
            score = self.score(task, answer)
        parts = {"correct": float(score >= 1)}
        if self.partial:
            parts["partial"] = 0.0 if score >= 1 else self.partial * max(0.0, score)
        return parts

    def score(self, task: Task, answer: str) -> float:
        """What the data set's grader gives; 0 where it breaks over the answer."""
        entry = {
            "question": task.prompt,
            "answer": task.answer,
            "metadata": copy.deepcopy(dict((task.meta or {}).get("entry", {}))),
        }
        if refusal(self.dataset, answer):
            return 0.0
        apart = score_apart(self.dataset, answer, entry)
        if apart is not None:
            return apart
        try:
            with blame(_Unreadable, "score_answer"):
                return float(self._made.score_answer(answer, entry))
        except _Unreadable:
            return 0.0

    @cached_property
    def _made(self) -> Any:
        module = need("reasoning_gym", "reasoning-gym", f"--env reasoning_gym/{self.dataset}")
        refused: UsageError | None = None
        for size in POOLS:
            try:
                with blame(UsageError, f"--env reasoning_gym/{self.dataset}"):
                    given = {"size": size, **self.given, "seed": self.seed}
                    return module.create_dataset(self.dataset, **given)
            except UsageError as error:
                # The last one is about what the user gave: the first may be about the size.
                refused = error
        assert refused is not None
        raise refused

    def _problem(self, rng: np.random.Generator) -> Task:
        with blame(EnvironmentFault, f"reasoning_gym/{self.dataset}"):
            entry = self._made[int(rng.integers(len(self._made)))]
        answer, metadata = entry["answer"], entry["metadata"]
        meta = {"entry": metadata, "tags": [f"reasoning_gym/{self.dataset}"]}
        task = Task(entry["question"], answer, meta=meta)
        right = answer if isinstance(answer, str) else self._example(task, metadata)
        if right is None:
            return task
        return dataclasses.replace(task, reference=(f"<answer>{right}</answer>",))

    def _example(self, task: Task, metadata: Mapping[str, Any]) -> str | None:
        """A solution of a problem that has many, if the data set gives one that it accepts."""
        given = [str(metadata[key]) for key in _EXAMPLES if key in metadata]
        return next((text for text in given if self.score(task, text) >= 1), None)

    @classmethod
    def _fields(cls) -> set[str]:
        factory = need("reasoning_gym.factory", "reasoning-gym", "--env reasoning_gym")
        return {field.name for field in dataclasses.fields(factory.DATASETS[cls.dataset][1])}


def _answer(text: str) -> str:
    found = _ANSWER.findall(text)
    return found[-1].strip() if found else ""


def _is_plain(task: Task, text: str) -> bool:
    """Whether nothing needs grading: there is no answer, or it is the gold answer's text."""
    return len(text) <= _SHORT and _answer(text) in ("", task.answer)


class _Unreadable(ToolError):
    """A grader broke over an answer."""


def environment(name: str) -> type[ToolEnv]:
    """The class for one data set.

    Raises:
        UsageError: reasoning-gym is not installed, or has no such data set.
    """
    text = f"reasoning_gym/{name}"
    known = need("reasoning_gym.factory", "reasoning-gym", f"--env {text}").DATASETS
    if name not in known:
        hint = suggestion(name, known, f"There are {len(known)}, such as chain_sum.")
        raise UsageError(f"--env {text}: reasoning-gym has no such data set. {hint}")
    return named(ReasoningGym, text, dataset=name)
