"""Symbolic: algebra and calculus by sympy, inside a sandbox.

In    expressions and equations as text, whatever a policy may write
Out   the result as text, or ToolError in words that the policy may read
Not   parsed here: sympy's parser runs what it reads, so text becomes an expression only where
      it can do no harm; nor to be relied on for a reward, since what comes back is text
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from agentrl.errors import ToolError
from agentrl.sandbox import Limits, Sandbox
from agentrl.task import Task
from agentrl.toolbox import Toolbox
from agentrl.tooling import ToolResult, ToolSpec, tool
from agentrl_tools._ending import ending
from agentrl_tools._symbolic_program import PROGRAM
from agentrl_tools.python import PATIENCE, shared

MAX_TEXT: Final = 2000
"""Characters of what is asked, all parts together."""
MAX_ANSWER: Final = 2000
"""Characters of a result; the rest is cut, and the answer says so."""
MAX_COMPLAINT: Final = 300
_LIMITS: Final = Limits(cpu=10.0, wall=30.0)


class Symbolic(Toolbox):
    """Algebra and calculus: solve, integrate, differentiate, limit, simplify and factor.

    Powers are ^ or **, decimals are exact, `2x` is a product. `E`, `I` and `oo` are Euler's
    number, the imaginary unit and infinity.
    """

    def __init__(self, sandbox: Sandbox | None = None, *, limits: Limits = _LIMITS) -> None:
        """Use a sandbox that has sympy; the one of this process where none is given."""
        self._given = sandbox
        self._limits = limits
        self._level = 0

    def start(self, task: Task) -> None:
        """Meet a machine that can't hold sympy before the policy calls anything.

        Raises:
            SandboxUnavailable: This is one.
        """
        self._level = self._sandbox().level

    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools; their outcomes also say how sympy was held."""
        found = super().tools().items()
        return {name: replace(spec, fn=partial(self._noted, spec.fn)) for name, spec in found}

    @tool(timeout=PATIENCE)
    def solve(self, equations: str, variables: str = "x") -> str:
        """Solve equations or inequalities.

        Args:
            equations: One, or several separated by ; such as x + y = 3; x - y = 1. Without =
                the expression is set to 0.
            variables: What to solve for, separated by commas.
        """
        return self._ask("solve", equations=equations, variables=variables)

    @tool(timeout=PATIENCE)
    def integrate(
        self, expression: str, variable: str = "x", lower: str = "", upper: str = ""
    ) -> str:
        """Integrate; between two bounds if both are given, and oo is infinity.

        Args:
            expression: What to integrate.
            variable: In which variable.
            lower: Lower bound.
            upper: Upper bound.
        """
        return self._ask(
            "integrate", expression=expression, variable=variable, lower=lower, upper=upper
        )

    @tool(timeout=PATIENCE)
    def differentiate(self, expression: str, variable: str = "x", times: int = 1) -> str:
        """Differentiate, once or several times.

        Args:
            expression: What to differentiate.
            variable: In which variable.
            times: How often.
        """
        return self._ask("differentiate", expression=expression, variable=variable, times=times)

    @tool(timeout=PATIENCE)
    def limit(self, expression: str, to: str, variable: str = "x", side: str = "both") -> str:
        """Find the limit of an expression.

        Args:
            expression: Of what.
            to: What the variable goes to; oo is infinity.
            variable: Which variable.
            side: From the left, right, or both.
        """
        return self._ask("limit", expression=expression, to=to, variable=variable, side=side)

    @tool(timeout=PATIENCE)
    def simplify(self, expression: str) -> str:
        """Simplify an expression.

        Args:
            expression: What to simplify.
        """
        return self._ask("simplify", expression=expression)

    @tool(timeout=PATIENCE)
    def factor(self, expression: str) -> str:
        """Factor a polynomial, or a whole number into primes.

        Args:
            expression: What to factor.
        """
        return self._ask("factor", expression=expression)

    def _ask(self, what: str, **parts: str | int) -> str:
        asked = json.dumps({"what": what, "most": MAX_ANSWER, **parts})
        length = sum(len(str(part)) for part in parts.values())
        if length > MAX_TEXT:
            raise ToolError(
                f"{what}: {length} characters, and the limit is {MAX_TEXT}. Shorten it."
            )
        result = self._sandbox().run(f"{PROGRAM}\nmain({asked!r})\n", limits=self._limits)
        why = ending(result, self._limits)
        if why:
            raise ToolError(f"{what}: {why}. Ask for something simpler.")
        said = result.stdout.strip()
        if result.status != "ok":
            raise ToolError(f"{what}: {_last_line(said)}")
        return said[: MAX_ANSWER + MAX_COMPLAINT] or "(no result)"

    def _sandbox(self) -> Sandbox:
        return self._given or shared(("sympy",), ("sympy",))

    def _noted(self, method: Callable[..., str], **arguments: Any) -> ToolResult:
        said = method(**arguments)
        return ToolResult(said, metrics={"sandbox_level": float(self._level)})


def _last_line(text: str) -> str:
    return text.rpartition("\n")[2][:MAX_COMPLAINT] or "it failed without a word."
