"""Ledger: what a run counts, writes down and tells.

In    a world, what a step did
Out   counters, rows, episodes, checkpoints, warnings; a RunSummary at the end
Not   a say in what is played or learned
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrl import checkpoint, disk, metrics
from agentrl.chosen import Chosen
from agentrl.clock import Clock
from agentrl.events import Picked, Started, Stepped, Warned
from agentrl.figures import UpdateReport
from agentrl.interval import Interval
from agentrl.selection.report import SHORT
from agentrl.world import World, note

FLAT = (
    "without contrast in any group. Nothing is learned: tasks are too easy, too hard, or all "
    "earn the same. Change the tasks' difficulty, or raise --n."
)
SHORTER = (
    f"the kept trajectories have under {SHORT:.0%} of the tokens of others with their reward. "
    "Short ones are rewarded on the quiet. Raise --token-budget, or use --within random or ht."
)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How a run ended."""

    path: str
    status: str
    """done or stopped; followed, in a process that only shared the updates of another."""
    steps: int
    before: Interval | None
    after: Interval | None
    seconds: Mapping[str, float]
    tokens: Mapping[str, int]
    first_reward: float | None
    last_reward: float | None


def count(world: World, chosen: Chosen, update: UpdateReport | None) -> None:
    """Count a step's tokens, and warn of what went on for too long."""
    standing = world.standing
    standing.tokens["sampled"] += sum(t.num_trained_tokens for t in chosen.trajectories)
    if update is not None:
        standing.tokens["trained"] += update.trained_tokens
        standing.tokens["forwarded"] += update.tokens
    standing.flat_in_a_row = 0 if update is not None else standing.flat_in_a_row + 1
    shorter = chosen.selection.report.shorter
    standing.shorter_in_a_row = standing.shorter_in_a_row + 1 if shorter else 0
    patience = world.config.train.flat_warning
    if chosen.oversize:
        _tell_oversize(world, chosen)
    for times, what in ((standing.flat_in_a_row, FLAT), (standing.shorter_in_a_row, SHORTER)):
        if times == patience and not chosen.oversize:
            world.emit(Warned(f"step {standing.step}: {times} steps in a row {what}"))


def _tell_oversize(world: World, chosen: Chosen) -> None:
    """Once, and again where more are left out than ever before."""
    if chosen.oversize <= world.most_oversize:
        return
    world.most_oversize = chosen.oversize
    world.emit(
        Warned(
            f"step {world.standing.step}: {chosen.oversize} of {len(chosen.trajectories)} "
            f"trajectories are longer than a micro-batch of {world.learner.cap} tokens and are "
            "left out of training. Raise --memory or --update.tokens_per_micro_batch, set "
            "--update.checkpointing, or lower --rollout.max_context."
        )
    )


def write(world: World, chosen: Chosen, row: Mapping[str, Any]) -> None:
    """Write a step's trajectories and its row."""
    world.folder.write_episodes(
        "groups",
        world.standing.step,
        chosen.trajectories,
        chosen.marks,
        tokens=world.config.record.tokens,
    )
    world.folder.write_metrics(row)


def save(world: World, clock: Clock, ahead: int) -> None:
    """Write a checkpoint; steps that are played ahead of it are not in it, only their number."""
    clock.mark()
    world.standing.ahead = ahead
    note(world)
    checkpoint.save(
        world.folder.checkpoints,
        world.standing.step,
        world.parts,
        keep=world.config.train.keep_checkpoints,
        keep_best=world.config.train.keep_best,
        accuracy=world.accuracy,
        about=world.about,
    )


def show(world: World, row: Mapping[str, Any], elapsed: float) -> None:
    """Tell that a step is done, and how long the rest will take."""
    done = world.standing.step - world.first_step + 1
    steps = world.config.train.steps
    left = elapsed / done * (steps - world.standing.step)
    world.emit(Stepped(row, steps, elapsed, left))


def started(world: World) -> Started:
    """That a run begins, and with what."""
    c = world.config
    return Started(
        path=world.folder.path,
        env=c.env.name,
        model=c.model.name,
        engine=world.engine.name,
        n=c.select.n,
        m=c.select.m,
        steps=c.train.steps,
        tasks_per_step=c.train.tasks_per_step,
        first_step=world.first_step,
        rule=c.select.rule,
        memory=world.forecast.limits.memory,
        past=tuple(disk.rows(world.folder.metrics)) if world.first_step > 1 else (),
    )


def picked(step: int, chosen: Chosen) -> Picked:
    """What selection came to."""
    found = metrics.select_part(chosen)
    return Picked(
        step=step,
        kept=found["select/kept"],
        of=found["select/of"],
        groups=len(chosen.selection.report.groups),
        flat=found["select/flat"],
        spread_all=found["select/spread_all"],
        spread_kept=found["select/spread_kept"],
        tokens=found["select/tokens_kept"],
    )


def summary(world: World, rewards: Sequence[float | None], status: str) -> RunSummary:
    """How a run ended that this process led."""
    known = [r for r in rewards if r is not None]
    last = world.measured.get(world.standing.step)
    return RunSummary(
        path=str(world.folder.path),
        status=status,
        steps=world.standing.step,
        before=world.before,
        after=last.accuracy if last is not None and world.standing.step else None,
        seconds=world.seconds,
        tokens=dict(world.standing.tokens),
        first_reward=known[0] if known else None,
        last_reward=known[-1] if known else None,
    )


def followed(steps: int) -> RunSummary:
    """How a run ended whose updates this process shared."""
    tokens = dict.fromkeys(("sampled", "trained", "forwarded"), 0)
    return RunSummary("", "followed", steps, None, None, {}, tokens, None, None)
