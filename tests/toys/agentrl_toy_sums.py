"""A taskset of verifiers: sums, a toolset with state, two rewards."""

from __future__ import annotations

import verifiers.v1 as vf

__all__ = ["Sums"]


class SumData(vf.TaskData):
    """A sum."""

    answer: str


class Counted(vf.State):
    """How often the tool was called."""

    calls: int = 0


class CalcConfig(vf.ToolsetConfig):
    """None."""


class Calc(vf.Toolset[CalcConfig, Counted]):
    """One tool."""

    @vf.tool
    async def add(self, a: int, b: int) -> str:
        """Add two numbers."""
        if a < 0:
            raise ValueError("only upwards")
        self.state.calls += 1
        return str(a + b)


class SumTask(vf.Task[SumData, Counted]):
    """One sum."""

    @classmethod
    def toolsets(cls, config):
        """The calculator."""
        return [Calc(CalcConfig())]

    @vf.reward
    async def exact(self, trace) -> float:
        """The right number."""
        return float(trace.last_reply == self.data.answer)

    @vf.reward(weight=0.5)
    async def used(self, trace) -> float:
        """A tool was called, by the state and by the trace."""
        return float(trace.state.calls == 1 and len(trace.tool_messages) == 1)


class Sums(vf.Taskset[SumTask]):
    """A hundred sums."""

    def load(self):
        """In order."""
        for i in range(100):
            data = SumData(prompt=f"{i} + {i} = ?", system_prompt="Add.", answer=str(2 * i))
            yield SumTask(data, self.config.task)
