"""A taskset of verifiers that asks for a machine."""

from __future__ import annotations

import verifiers.v1 as vf

__all__ = ["Machine"]


class MachineTask(vf.Task[vf.TaskData]):
    """Prepared and scored in a runtime."""

    async def setup(self, trace, runtime) -> None:
        """Write a file."""
        await runtime.write("x", b"")

    @vf.reward
    async def ran(self, trace, runtime) -> float:
        """Look at the machine."""
        return 1.0


class Machine(vf.Taskset[MachineTask]):
    """One task."""

    def load(self):
        """It."""
        yield MachineTask(vf.TaskData(prompt="Go."), self.config.task)
