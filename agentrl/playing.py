"""A step's play: which tasks, how many episodes of each.

In    a World, where the drawing of tasks stands, the number of the step
Out   Played: a Group per task, and the play/ part of the step's row; moves that standing
Not   an update, nor anything of the world that changes
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrl import leftout, past
from agentrl.config import TrainConfig
from agentrl.curriculum import counted
from agentrl.effort import rollout_part
from agentrl.events import Played as OneMore
from agentrl.events import Warned, episode_of
from agentrl.group import Group, outcome_of, play_groups, seed_for
from agentrl.leftout import Ended, earned
from agentrl.measure import refuse_if_all_broke
from agentrl.sampler import Taste, draw
from agentrl.state import Standing
from agentrl.task import Task
from agentrl.trajectory import Stop, Trajectory
from agentrl.waves import Rules, Wave, play_tasks
from agentrl.world import World


@dataclass(frozen=True, slots=True)
class Played:
    """What one step played."""

    groups: Sequence[Group]
    row: Mapping[str, Any]
    """Names of play/ and rollout/."""


async def play_step(world: World, standing: Standing, number: int) -> Played:
    """Draw the tasks of a step and play as much of each as is worth it.

    Args:
        world: What is played, and how; nothing in it changes.
        standing: Where the drawing of tasks stands; moved on by this step.
        number: The step.
    """
    config, train = world.config, world.config.train
    taste = Taste(train.curriculum, train.skip_flat, train.audit)
    drawn = draw(world.source, standing, seed=train.seed, count=train.tasks_per_step, taste=taste)
    ended = await play_tasks(_wave(world, number), drawn, _rules(config), number)
    groups = [end.group for end in ended]
    refuse_if_all_broke(groups, f"step {number}")
    _tell_what_broke(world, groups, number)
    if train.curriculum:
        standing.levels = counted(standing.levels, [outcome_of(group) for group in groups])
    if train.skip_flat:
        standing.pasts = remembered(standing.pasts, ended)
    standing.audits = leftout.audited(standing.audits, ended)
    row = leftout.play_part(ended, drawn.skipped, standing.audits, config.select.n)
    return Played(groups, {**row, **rollout_part([(g.trajectories, g.effort) for g in groups])})


def remembered(pasts: past.Pasts, ended: Sequence[Ended]) -> dict[str, Sequence[float]]:
    """The memory of flat tasks after a step; groups that tell nothing change nothing."""
    found = dict(pasts)
    for end in ended:
        reward, flat = earned(end.group.trajectories), end.flat
        if flat is not None and reward is not None:
            tokens = leftout.spent(end.group.trajectories)
            found = past.ended(found, end.group.task.hash, flat=flat, reward=reward, tokens=tokens)
    return found


def _tell_what_broke(world: World, groups: Sequence[Group], number: int) -> None:
    every = [t for group in groups for t in group.trajectories]
    out = [t.problem for t in every if t.stop is Stop.ENV_ERROR]
    again = [problem for group in groups for problem in group.effort.refilled]
    if out or again:
        world.emit(
            Warned(
                f"step {number}: infrastructure broke {len(out)} of {len(every)} episodes, which "
                f"are left out, and {len(again)} tries that were played again. "
                f"The first said: {(out + again)[0]}"
            )
        )


def _rules(config: TrainConfig) -> Rules:
    train, select = config.train, config.select
    return Rules(
        n=select.n,
        pilot=train.pilot,
        certainty=train.pilot_certainty,
        audit=train.audit,
        truncated=select.truncated,
        seed=train.seed,
    )


def _wave(world: World, number: int) -> Wave:
    """Plays with the world's engine, and tells of each episode."""
    done, seed = itertools.count(1), world.config.train.seed
    n, oversample = world.config.select.n, world.config.rollout.oversample

    def telling(expected: int) -> Callable[[Trajectory], None]:
        return lambda played: world.emit(
            OneMore("rollout", next(done), expected, episode_of(played), number)
        )

    async def wave(tasks: Sequence[Task], first: int, last: int, expected: int) -> list[Group]:
        return await play_groups(
            world.mixture.make,
            tasks,
            n=last,
            first=first,
            seed_of=lambda task, member: seed_for(seed, number, task.hash, member),
            world=world.play,
            on_done=telling(expected),
            # A pilot is the first few anyway: to drop the last of those would say little of it.
            spare=oversample if last == n else 0,
        )

    return wave
