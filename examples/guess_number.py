"""An environment in one file: find a number by asking.

Play it: agentrl envs play examples/guess_number.py:GuessNumber
Train:   agentrl train --env examples/guess_number.py:GuessNumber --n 8 --m 4 --steps 2
"""

from agentrl import ProceduralTasks, Task, ToolEnv, ToolResult, tool

CALL = '<tool_call>{"name": "guess", "arguments": {"number": %d}}</tool_call>'


def halving(number):
    """The turns of a policy that halves what is left; `envs check` plays them."""
    low, high, guesses = 1, 9999, [5000]
    while guesses[-1] != number:
        low, high = (guesses[-1] + 1, high) if guesses[-1] < number else (low, guesses[-1] - 1)
        guesses.append((low + high) // 2)
    return tuple(CALL % guess for guess in guesses)


def hidden(rng):
    """A task."""
    number = int(rng.integers(1, 10_000))
    return Task("Find the number.", number, reference=halving(number))


class GuessNumber(ToolEnv):
    """Find a hidden number between 1 and 9999 with a tool that says higher or lower."""

    system_prompt = "Find the hidden number with the tool guess."
    max_turns = 16

    @classmethod
    def tasks(cls, split):
        """Hidden numbers; the two splits share none."""
        return ProceduralTasks(hidden, 1000, 0, split=split)

    @tool
    def guess(self, number: int) -> ToolResult:
        """Say whether the hidden number is higher, lower, or found."""
        if number == self.task.answer:
            return ToolResult("found", reward=1.0, terminate=True)
        return ToolResult("higher" if number < self.task.answer else "lower")
