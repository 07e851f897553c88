"""long_log whose episodes begin with the whole log, and whose reward is drawn by lot.

Every trajectory is at least as long as the log, whatever the policy can do: this environment
is for memory, nothing can be learnt in it.
"""

from agentrl.task import Task
from agentrl.trajectory import Trajectory
from agentrl_environments.long_log import LongLog


class ReadAloud(LongLog):
    """Questions about a log that the opening reads out."""

    def start(self, task: Task) -> str:
        """The log's pages, all of them."""
        told = super().start(task)
        return "\n".join([told, *self.log.lines])

    def reward(self, task: Task, trajectory: Trajectory) -> dict[str, float]:
        """By lot."""
        return {"correct": float(trajectory.seed % 2)}
