"""Word problems from templates: those of reasoning-gym's gsm_symbolic, without any download.

In    a random generator and a difficulty
Out   Task
Not   every problem that the package makes: where its own solution does not add up, such as
      564.3 / 1.35 = 417, the gold answer can't be trusted, and another problem is drawn
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agentrl.errors import EnvironmentFault, blame
from agentrl.exact import parse_number
from agentrl.optional import need
from agentrl.task import Task
from agentrl_environments._gsm_solution import level, steps, worked_out

DATASET = "gsm_symbolic"
TRIES = 1000


def symbolic_task(rng: np.random.Generator, difficulty: str = "mixed") -> Task:
    """One problem of a difficulty.

    Raises:
        UsageError: reasoning-gym is not installed.
        EnvironmentFault: It gives no such problem.
    """
    library = need("reasoning_gym", "reasoning-gym", "gsm")
    for _ in range(TRIES):
        with blame(EnvironmentFault, "gsm: reasoning_gym"):
            made = library.create_dataset(DATASET, size=1, seed=int(rng.integers(2**31)))[0]
            question, gold, solution = _parts(made)
        if is_sound(gold, solution) and difficulty in ("mixed", level(solution)):
            return worked_out(question, gold, solution)
    raise EnvironmentFault(f"gsm: no {difficulty} problem in {TRIES} of reasoning_gym.")


def is_sound(gold: str, solution: str) -> bool:
    """Whether all arithmetic of a solution is right, and its answer is a number from 0."""
    value = parse_number(gold)
    return value is not None and value >= 0 and all(step.right for step in steps(solution))


def _parts(made: dict[str, Any]) -> tuple[str, str, str]:
    return str(made["question"]), str(made["answer"]), str(made["metadata"]["answer_cot"])
