"""tool_math whose calculator talks: results come with a log of very different lengths.

A policy forwards the log in every later turn and in the update, and samples none of it: the
shape of trajectories where tools return pages. The reward is drawn by lot, half of the
episodes earn it: this environment is for clocks, nothing can be learnt in it.
"""

from agentrl.task import Task
from agentrl.tooling import tool
from agentrl.trajectory import Trajectory
from agentrl_environments.tool_math import ToolMath
from agentrl_tools.calculator import evaluate


class LongResults(ToolMath):
    """Arithmetic with a calculator that logs what it does."""

    def __init__(self, lines: int = 100) -> None:
        """Choose the longest log; lengths are spread evenly on a logarithmic scale."""
        super().__init__()
        self.lines = lines

    @tool(timeout=2.0)
    def calculator(self, expression: str) -> str:
        """Evaluate arithmetic exactly."""
        lines = int((1 + self.lines) ** self.np_random.random()) if self.lines else 0
        return "\n".join([evaluate(expression), *(f"step {i}: ok" for i in range(lines))])

    def reward(self, task: Task, trajectory: Trajectory) -> dict[str, float]:
        """By lot."""
        return {"correct": float(trajectory.seed % 2)}
