"""Calculator: exact arithmetic for a policy.

In    an expression as text, whatever a policy may write
Out   its value as text, or ToolError in words that the policy may read
Not   a Python or algebra system: no variables, no equations, nothing is executed
"""

from __future__ import annotations

import re

from agentrl.author import at_once
from agentrl.errors import ToolError
from agentrl.exact import ExactError
from agentrl.exact import evaluate as evaluate_exactly
from agentrl.toolbox import Toolbox
from agentrl.tooling import tool

_SHORT = re.compile(r"[0-9+*/().,% -]{1,100}")


def is_short(expression: str) -> bool:
    """Whether an expression takes under a millisecond, however bad: no powers and no functions."""
    return _SHORT.fullmatch(expression) is not None


def evaluate(expression: str) -> str:
    """Compute an arithmetic expression exactly.

    The answer is a whole number, a short decimal or a fraction p/q; an answer that had
    to be rounded begins with ~. Angles are in radians, ln is the natural logarithm, log
    has base 10 or the base given as its second argument.

    Args:
        expression: Numbers with + - * / ^ % ! and brackets, the constants pi and e, and
            sqrt, abs, round, floor, ceil, min, max, gcd, lcm, factorial, comb, perm, log,
            ln, exp, sin, cos, tan and their inverses. For example 2^10 - sqrt(2)/3.

    Raises:
        ToolError: The expression has no single value, or one that is too large.
    """
    try:
        return evaluate_exactly(expression)
    except ExactError as error:
        raise ToolError(f"calculator: {error}") from None


class Calculator(Toolbox):
    """Exact arithmetic."""

    @tool(timeout=2.0)
    @at_once(is_short)
    def calculator(self, expression: str) -> str:
        """Compute an arithmetic expression exactly.

        The answer is a whole number, a short decimal or a fraction p/q; an answer that had to
        be rounded begins with ~. Angles are in radians, ln is the natural logarithm, log has
        base 10 or the base given as its second argument.

        Args:
            expression: Numbers with + - * / ^ % ! and brackets, the constants pi and e, and
                functions such as sqrt, gcd, factorial, log, ln, sin. For example 2^10 - sqrt(2)/3.
        """
        return evaluate(expression)
