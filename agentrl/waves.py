"""Tasks → Ended: as many episodes of each as are worth playing.

In    the drawn tasks, a way to play members of their groups, the rules of pilots
Out   Ended per task, in the order of the tasks
Not   all groups of n members: one whose pilot was flat ends after the pilot
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentrl import pilot
from agentrl.group import Group
from agentrl.leftout import Ended, comparable, earned
from agentrl.sampler import Drawn
from agentrl.task import Task


@dataclass(frozen=True, slots=True)
class Rules:
    """How much of a group is played."""

    n: int
    pilot: int = 0
    """Members played first; 0: all at once."""
    certainty: float = 1 / 3
    """Chance of a flat rest that ends a group after its pilot."""
    audit: float = 0.1
    """Share of groups that a pilot would have ended, played in full."""
    truncated: str = "score"
    """What the reward of a cut-off episode counts as in selection."""
    seed: int = 0


class Wave(Protocol):
    """Plays members first to last - 1 of every task's group, side by side."""

    async def __call__(
        self, tasks: Sequence[Task], first: int, last: int, expected: int
    ) -> list[Group]:
        """Groups in the order of the tasks; `expected` episodes are played in this step."""
        ...


async def play_tasks(wave: Wave, drawn: Drawn, rules: Rules, step: int) -> list[Ended]:
    """The pilots of all tasks side by side, then the rest of those that go on."""
    tasks, n, first = drawn.tasks, rules.n, rules.pilot
    if not first:
        groups = await wave(tasks, 0, n, len(tasks) * n)
        return [_whole(group, drawn, rules) for group in groups]
    pilots = await wave(tasks, 0, first, len(tasks) * n)
    ended = {group.task.hash: _after_pilot(group, drawn, rules, step) for group in pilots}
    on = [task for task in tasks if ended[task.hash].way != "stopped"]
    expected = len(tasks) * first + len(on) * (n - first)
    for rest in await wave(on, first, n, expected) if on else ():
        ended[rest.task.hash] = _joined(ended[rest.task.hash], rest, rules)
    return [ended[task.hash] for task in tasks]


def _whole(group: Group, drawn: Drawn, rules: Rules) -> Ended:
    """A group that is played in full, always or because its task came back by lot."""
    rewards = comparable(group.trajectories, rules.truncated)
    if group.task.hash not in drawn.returned:
        return Ended(group, "whole", rewards)
    before, chance = drawn.returned[group.task.hash]
    return Ended(group, "returned", rewards, before.reward, chance)


def _after_pilot(group: Group, drawn: Drawn, rules: Rules, step: int) -> Ended:
    """Whether a group ends with its pilot; a task that came back by lot is played in full."""
    so_far = _whole(group, drawn, rules)
    found = pilot.verdict(so_far.comparable, rules.n - rules.pilot, rules.certainty)
    if so_far.way == "returned" or found != "flat":
        return so_far
    guess = earned(group.trajectories)
    if pilot.audited(rules.audit, seed=rules.seed, step=step, task=group.task.hash):
        return Ended(group, "audited", so_far.comparable, guess, rules.audit)
    return Ended(group, "stopped", so_far.comparable, guess)


def _joined(first: Ended, rest: Group, rules: Rules) -> Ended:
    """A pilot and the members after it."""
    every = first.group.trajectories + rest.trajectories
    rewards = comparable(every, rules.truncated)
    group = Group(rest.task, every, first.group.effort + rest.effort)
    return Ended(group, first.way, rewards, first.guess, first.chance)
