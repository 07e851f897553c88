"""Ranks: one process plays and chooses; the others compute their share of each update.

In    a learner on every rank of a parallel run
Out   Leader, a learner for rank 0 that tells the others what it does; `follow`, what they do
Not   play on more than rank 0: engines of their own come with servers
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agentrl.errors import RunError
from agentrl.figures import UpdateReport
from agentrl.parallel import Parallel
from agentrl.sample import Sample
from agentrl.update import Learner
from agentrl.weights import Policy

POLICY = "policy"
"""The part of a checkpoint beside the learner's that every rank reads."""


class Leader:
    """The learner of rank 0. What it is told to do, all ranks do."""

    def __init__(self, learner: Learner, parallel: Parallel) -> None:
        self._learner = learner
        self._parallel = parallel
        self.exact = learner.exact

    @property
    def cap(self) -> int:
        """Most tokens of a micro-batch, on all ranks."""
        return self._learner.cap

    @cap.setter
    def cap(self, tokens: int) -> None:
        self._learner.cap = tokens

    def step(self, samples: Sequence[Sample], kept: int) -> UpdateReport:
        """Make one optimizer step; see Learner.step."""
        self._tell("step", self.cap, tuple(samples), kept)
        return self._learner.step(samples, kept)

    def rehearse(self, tokens: int, longest: int) -> bool:
        """Try micro-batches; see Learner.rehearse."""
        self._tell("rehearse", tokens, longest)
        return self._learner.rehearse(tokens, longest)

    def save(self, folder: Path) -> None:
        """Write the optimizer's state; it is the same on every rank."""
        self._learner.save(folder)

    def load(self, folder: Path) -> None:
        """Take what was saved; the others read the same files, the policy's too."""
        self._tell("load", str(folder.absolute()))
        self._learner.load(folder)

    def close(self) -> None:
        """Let the others go, if they have not gone already: why is told elsewhere."""
        with suppress(RunError):
            self._tell("close")

    def _tell(self, *order: object) -> None:
        self._parallel.broadcast(order)


def follow(learner: Learner, policy: Policy, parallel: Parallel) -> int:
    """Do what rank 0 does until it closes; the number of steps.

    Raises:
        RunError: a rank failed; each raises with it.
    """
    steps = 0
    while True:
        match parallel.broadcast(()):
            case ("step", cap, samples, kept):
                learner.cap = cap
                learner.step(samples, kept)
                steps += 1
            case ("rehearse", tokens, longest):
                learner.rehearse(tokens, longest)
            case ("load", folder):
                policy.load(Path(folder).parent / POLICY)
                learner.load(Path(folder))
            case _:
                return steps
