"""An environment in twenty lines: find a number by asking.

Play it: agentrl train --env examples/guess_number.py:GuessNumber --n 8 --m 4 --steps 2
"""

from agentrl import ProceduralTasks, Task, ToolEnv, ToolResult, tool


class GuessNumber(ToolEnv):
    """Find a hidden number between 1 and 9999 with a tool that says higher or lower."""

    system_prompt = "Find the hidden number with the tool guess."
    max_turns = 16

    @classmethod
    def tasks(cls, split):
        """Hidden numbers; the two splits share none."""
        return ProceduralTasks(
            lambda rng: Task("Find the number.", int(rng.integers(1, 10_000))), 1000, 0, split=split
        )

    @tool
    def guess(self, number: int) -> ToolResult:
        """Say whether the hidden number is higher, lower, or found."""
        if number == self.task.answer:
            return ToolResult("found", reward=1.0, terminate=True)
        return ToolResult("higher" if number < self.task.answer else "lower")
