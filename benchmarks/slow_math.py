"""tool_math whose calculator takes its time: seconds drawn from a lognormal distribution.

The answers are those of tool_math, so the same is learnt; only the clock differs.
"""

import asyncio
import math

from agentrl.tooling import tool
from agentrl_environments.tool_math import ToolMath
from agentrl_tools.calculator import evaluate


class SlowMath(ToolMath):
    """Arithmetic with a calculator far away."""

    def __init__(self, median: float = 0.3, most: float = 2.0) -> None:
        """Choose the median of the seconds a call takes, and the most."""
        super().__init__()
        self.median = median
        self.most = most

    @tool(timeout=30.0)
    async def calculator(self, expression: str) -> str:
        """Evaluate arithmetic exactly."""
        drawn = self.median * math.exp(0.8 * self.np_random.standard_normal())
        await asyncio.sleep(min(self.most, drawn))
        return evaluate(expression)
