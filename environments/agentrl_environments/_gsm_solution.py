"""What a worked solution says: its arithmetic, step by step, and the answer at its end.

In    a solution as data sets write it: prose with equations, `<<6*7=42>>`, `#### 42`, a box
Out   Step; the gold answer's text; the Task that all of it makes
Not   an understanding of prose: an equation that can't be read is no step, one that is wrong
      is called so
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from agentrl.errors import ToolError
from agentrl.exact import parse_number
from agentrl.graders import final_answer
from agentrl.task import Task
from agentrl_environments._math_tasks import tool_call
from agentrl_tools.calculator import evaluate

MAX_CALLS: Final = 12
"""Of a reference."""
_MARKED: Final = re.compile(r"<<([^<>=]{1,200})=([^<>=]{1,60})>>")
_UNIT: Final = re.compile(r"[A-Za-z]{2,}(?:/[A-Za-z]{2,})*")
"""Words between numbers: 12 eggs/day * 3 days. A lone x is a sign."""
_TIMES: Final = "\N{MULTIPLICATION SIGN}"
_NUMBER: Final = r"\d[\d,]*(?:\.\d+)?"
_TERM: Final = rf"\(*\s*[$€£]?{_NUMBER}\s*%?\s*\)*"
_EQUATION: Final = re.compile(
    rf"(?<![\w.])({_TERM}(?:\s*[-+*/{_TIMES}÷x]\s*{_TERM})+)\s*=\s*[$€£]?(-?{_NUMBER}(?:/\d+)?%?)"
)
_SPELLING: Final = str.maketrans({_TIMES: "*", "x": "*", "÷": "/"} | dict.fromkeys("$€£, \t"))


@dataclass(frozen=True, slots=True)
class Step:
    """One equation of a solution."""

    expression: str
    value: str
    """What the solution says it is."""
    right: bool
    """Whether the calculator says so, too, up to the last digit that is written."""


def steps(solution: str) -> list[Step]:
    """The equations of a solution that can be read."""
    found = _MARKED.findall(solution) or [
        equation
        for line in solution.splitlines()
        for equation in _EQUATION.findall(_UNIT.sub(" ", line))
    ]
    read = (_step(left.translate(_SPELLING), right.translate(_SPELLING)) for left, right in found)
    return [step for step in read if step is not None]


def lines(solution: str) -> int:
    """Lines of a solution that work something out."""
    return sum("=" in line for line in solution.partition("####")[0].splitlines())


def gold_of(solution: str) -> str:
    """The answer that a solution ends with: after `####`, in a box, else the whole of it."""
    _, found, end = solution.rpartition("####")
    if found:
        return end.strip()
    boxed = final_answer(solution, "boxed") if "boxed" in solution or "fbox" in solution else None
    return solution.strip() if boxed is None else boxed


def _step(expression: str, value: str) -> Step | None:
    said, found = _value(value), _value(expression)
    if said is None or found is None:
        return None
    # A decimal may be rounded at its last digit; all else is exact.
    places = len(value.rstrip("%").partition(".")[2]) + 2 * value.endswith("%")
    rounded = "." in value and abs(found - said) * 2 * 10**places <= 1
    return Step(expression, value, found == said or rounded)


def _value(expression: str) -> Fraction | None:
    try:
        found = evaluate(expression)
    except ToolError:
        return None
    return parse_number(found.removeprefix("~"))


def level(solution: str) -> str:
    """easy, medium or hard, by the lines of a solution that work something out."""
    count = lines(solution)
    return "easy" if count <= 2 else "medium" if count <= 4 else "hard"


def worked_out(question: str, gold: str, solution: str) -> Task:
    """The task of a problem, whose reference calculates what its solution does."""
    right = [step.expression for step in steps(solution) if step.right]
    # A bare answer says nothing about how hard it is to find.
    known = lines(solution) > 0
    meta = {"difficulty": level(solution), "steps": lines(solution)} if known else {}
    return Task(
        question,
        gold,
        meta=meta,
        reference=(*map(tool_call, right[:MAX_CALLS]), f"Answer: {gold}"),
    )
