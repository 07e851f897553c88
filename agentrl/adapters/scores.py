"""Answers that reasoning-gym's graders would run as Python, kept from running.

In    a data set's name, a policy's answer, the entry that it answers
Out   why an answer is not graded; or the score of a grader that was run in the sandbox
Not   a judgement: what passes here is graded as the data set does

Some graders pass the answer to `eval`, others to sympy's parser, which does so too. What an
answer to such a question can look like is known, so anything else is refused before they see
it. Algebra can also take forever; it goes to a process that can be ended.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from agentrl.errors import EnvironmentFault
from agentrl.sandbox import Limits, Sandbox

MOST: Final = 20_000
"""Characters of any answer."""
MOST_ALGEBRA: Final = 300
LITERALS: Final = ("binary_matrix", "n_queens", "spiral_matrix", "string_insertion")
ARITHMETIC: Final = ("countdown", "puzzle24")
ALGEBRA: Final = ("intermediate_integration", "polynomial_multiplication", "simple_integration")
YES_NO: Final = ("game_of_life_halting",)
"""Its grader takes any words for True."""
_PLAIN = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.List, ast.Tuple, ast.Set, ast.Dict,
    ast.UnaryOp, ast.USub,
)  # fmt: skip
_SUM = re.compile(r"(?!.*(\*\*|//))[0-9+\-*/(). ]{1,200}")
_WORDS = re.compile(
    r"[A-Za-z]|pi|(a|)(sin|cos|tan)|(sin|cos|tan)h|sec|csc|cot|exp|log|sqrt|Abs",
)
_ALGEBRA = re.compile(r"[A-Za-z0-9+\-*/^(). ]+")
_POWER = re.compile(r"(\*\*|\^) *\(?-? *(\d{3}|\d+ *\)? *(\*\*|\^))")
_LIMITS = Limits(cpu=20.0, wall=120.0, memory=1 << 30)
_READY = "the grader is ready"
_PROGRAM = """
import json, os
os.environ["MPLCONFIGDIR"] = os.getcwd()  # the package loads matplotlib, which insists on one
from reasoning_gym import get_score_answer_fn
name, answer, entry = json.loads({asked!r})
print("{ready}", flush=True)
print(json.dumps(float(get_score_answer_fn(name)(answer, entry))))
"""


def refusal(dataset: str, answer: str) -> str:
    """Why an answer is not graded at all; "" where it is."""
    if len(answer) > MOST:
        return f"it has over {MOST} characters"
    if dataset in LITERALS and not _plain(answer):
        return "it is a program"
    if dataset in ARITHMETIC and not _SUM.fullmatch(answer):
        return "it is no arithmetic"
    if dataset in ALGEBRA and not _formula(answer):
        return "it is no formula, or too large"
    if dataset in YES_NO and answer not in ("True", "False"):
        return "it is neither True nor False"
    return ""


def score_apart(dataset: str, answer: str, entry: Mapping[str, Any]) -> float | None:
    """The score of a grader that may not end, from the sandbox; None for the other graders.

    Raises:
        EnvironmentFault: the sandbox broke, which says nothing about the answer.
    """
    if dataset not in ALGEBRA:
        return None
    asked = json.dumps([dataset, answer, entry], default=str)
    result = _sandbox().run(_PROGRAM.format(asked=asked, ready=_READY), limits=_LIMITS)
    if _READY not in result.stdout or result.status in ("timeout_wall", "sandbox_failure"):
        said = result.stdout.strip().rpartition("\n")[2][:200]
        raise EnvironmentFault(f"grading {dataset}: {result.status} in the sandbox. {said}")
    # Whatever else ended it was what the answer asked for.
    return float(result.stdout.strip().rpartition("\n")[2]) if result.status == "ok" else 0.0


def _plain(answer: str) -> bool:
    """Whether `eval` of it would be no more than a literal, or fail at once."""
    try:
        tree = ast.parse(answer.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return True
    except (RecursionError, MemoryError):
        return False
    return all(isinstance(node, _PLAIN) for node in ast.walk(tree))


def _formula(answer: str) -> bool:
    words = re.findall(r"[A-Za-z][A-Za-z0-9]*", answer)
    return (
        len(answer) <= MOST_ALGEBRA
        and _ALGEBRA.fullmatch(answer) is not None
        and all(map(_WORDS.fullmatch, words))
        and re.search(r"\.\s*[A-Za-z]|\d{30}", answer) is None
        and _POWER.search(answer) is None
    )


@cache
def _sandbox() -> Sandbox:
    return Sandbox(packages=("reasoning-gym",), preload=("numpy", "sympy"), slots=4)
