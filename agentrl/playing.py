"""A step's play: which tasks, how many episodes of each.

In    a World, where its drawing of tasks stands, the number of the step
Out   Played: a Group per task, and the play/ part of the step's row; moves that standing
Not   all groups of n members: one whose pilot was flat ends after the pilot
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentrl import leftout, past, pilot
from agentrl.curriculum import counted
from agentrl.events import Played as OneMore
from agentrl.group import Group, OnDone, outcome_of, play_groups, seed_for
from agentrl.leftout import Ended, comparable, earned
from agentrl.measure import refuse_if_all_broke
from agentrl.sampler import Drawn, Taste, draw
from agentrl.state import Standing
from agentrl.world import World


@dataclass(frozen=True, slots=True)
class Played:
    """What one step played."""

    groups: Sequence[Group]
    row: Mapping[str, Any]
    """Names of play/."""


async def play_step(world: World, standing: Standing, number: int) -> Played:
    """Draw the tasks of a step and play as much of each as is worth it."""
    config = world.config
    train = config.train
    taste = Taste(train.curriculum, train.skip_flat, train.audit)
    drawn = draw(world.source, standing, seed=train.seed, count=train.tasks_per_step, taste=taste)
    ended = await _waves(world, drawn, number)
    groups = [end.group for end in ended]
    refuse_if_all_broke(groups, f"step {number}")
    if train.curriculum:
        standing.levels = counted(standing.levels, [outcome_of(group) for group in groups])
    if train.skip_flat:
        standing.pasts = _remembered(standing.pasts, ended)
    standing.audits = leftout.audited(standing.audits, ended)
    row = leftout.play_part(ended, drawn.skipped, standing.audits, config.select.n)
    return Played(groups, row)


async def _waves(world: World, drawn: Drawn, number: int) -> list[Ended]:
    """The pilots of all tasks side by side, then the rest of those that go on."""
    config, tasks = world.config, drawn.tasks
    n, first = config.select.n, config.train.pilot
    done = itertools.count(1)

    def tell(of: int) -> OnDone:
        return lambda _: world.emit(OneMore("rollout", next(done), of))

    wave = partial(
        play_groups,
        world.mixture.make,
        seed_of=lambda task, member: seed_for(config.train.seed, number, task.hash, member),
        world=world.play,
    )
    if not first:
        whole = await wave(tasks, n=n, on_done=tell(len(tasks) * n))
        return [_whole(world, group, drawn) for group in whole]
    pilots = await wave(tasks, n=first, on_done=tell(len(tasks) * n))
    ended = {group.task.hash: _after_pilot(world, group, drawn, number) for group in pilots}
    on = [task for task in tasks if ended[task.hash].way != "stopped"]
    played = len(tasks) * first + len(on) * (n - first)
    more = await wave(on, n=n, first=first, on_done=tell(played)) if on else []
    for rest in more:
        key = rest.task.hash
        ended[key] = _joined(world, ended[key], rest)
    return [ended[task.hash] for task in tasks]


def _whole(world: World, group: Group, drawn: Drawn) -> Ended:
    """A group whose members all belong to it, whatever came of the first."""
    rewards = comparable(group.trajectories, world.config.select.truncated)
    if group.task.hash not in drawn.returned:
        return Ended(group, "whole", rewards)
    before, chance = drawn.returned[group.task.hash]
    return Ended(group, "returned", rewards, before.reward, chance)


def _after_pilot(world: World, group: Group, drawn: Drawn, number: int) -> Ended:
    """Whether a group ends with its pilot; a task that came back by lot is played in full."""
    config, train = world.config, world.config.train
    so_far = _whole(world, group, drawn)
    rest = config.select.n - train.pilot
    found = pilot.verdict(so_far.comparable, rest, train.pilot_certainty)
    if so_far.way == "returned" or found != "flat":
        return so_far
    guess = earned(group.trajectories)
    if pilot.audited(train.audit, seed=train.seed, step=number, task=group.task.hash):
        return Ended(group, "audited", so_far.comparable, guess, train.audit)
    return Ended(group, "stopped", so_far.comparable, guess)


def _joined(world: World, first: Ended, rest: Group) -> Ended:
    """A pilot and the members after it."""
    every = first.group.trajectories + rest.trajectories
    rewards = comparable(every, world.config.select.truncated)
    return Ended(Group(rest.task, every), first.way, rewards, first.guess, first.chance)


def _remembered(pasts: past.Pasts, ended: Sequence[Ended]) -> dict[str, Sequence[float]]:
    found = dict(pasts)
    for end in ended:
        reward = earned(end.group.trajectories)
        if end.flat is not None and reward is not None:
            key, tokens = end.group.task.hash, leftout.spent(end.group.trajectories)
            found = past.ended(found, key, flat=end.flat, reward=reward, tokens=tokens)
    return found
