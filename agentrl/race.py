"""Race: more episodes than a group needs; the first valid ones are taken.

In    how many are wanted, episodes as they end
Out   who counts; a Notice to all others once enough have arrived
Not   a fair sample: who arrives first has said less (effort.py tells how much less)
"""

from __future__ import annotations

from agentrl.notice import Notice
from agentrl.trajectory import Trajectory


class Race:
    """The episodes of one group."""

    def __init__(self, wanted: int) -> None:
        """Begin with nobody.

        Args:
            wanted: How many valid ones are enough.
        """
        self.wanted = wanted
        self.arrived = 0
        """Episodes that ended before it was over."""
        self._valid = 0
        self._notices: list[Notice] = []

    @property
    def over(self) -> bool:
        """Whether enough valid ones have arrived."""
        return self._valid >= self.wanted

    def enter(self) -> Notice:
        """Take part; the notice comes when the race is over."""
        self._notices.append(notice := Notice())
        return notice

    def arrive(self, trajectory: Trajectory) -> bool:
        """An episode has ended; whether that was in time."""
        if self.over:
            return False
        self.arrived += 1
        self._valid += trajectory.valid
        if self.over:
            for notice in self._notices:
                notice.give()
        return True
