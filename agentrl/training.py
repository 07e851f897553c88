"""train: play many, choose few, learn from those, hand over. And again.

In    a TrainConfig, listeners
Out   a run folder (record.py) and a RunSummary
Not   a display: listeners show what happens

With --max-staleness K the steps ahead are played while one is learned from; K = 0 is the same
loop, in which nothing is allowed ahead.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from agentrl.blocking import refuse_running_loop
from agentrl.chosen import Chosen, choose
from agentrl.clock import Clock
from agentrl.config import TrainConfig
from agentrl.course import Course, Rollout, hand_over, learn
from agentrl.curriculum import chance
from agentrl.events import Listener, Measured, Part, Phased, Stopping, counting
from agentrl.figures import UpdateReport
from agentrl.group import Group, seed_for
from agentrl.interrupt import Interrupt, listening
from agentrl.ledger import RunSummary, count, followed, picked, save, show, started, summary, write
from agentrl.measure import Measurement, measure, refuse_if_all_broke
from agentrl.metrics import engine_part, step_row
from agentrl.parallel import MODES
from agentrl.pipeline import Pipeline
from agentrl.playing import play_step
from agentrl.ranks import Leader
from agentrl.world import World, assist, prepare, recorded

Relabel = Callable[[int, Group], Group]
STEP_PHASES = ("rollout", "select", "update", "sync")


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one step did."""

    groups: Sequence[Group]
    chosen: Chosen
    update: UpdateReport | None
    """None where every group was flat."""
    row: Mapping[str, Any]


def train(
    config: TrainConfig,
    *,
    resume: str | None = None,
    origin: Mapping[str, str] | None = None,
    command: Sequence[str] = (),
    listeners: Sequence[Listener] = (),
    relabel: Relabel | None = None,
) -> RunSummary:
    """Train a policy in an environment.

    Args:
        config: All settings.
        resume: A run to go on with (path, name, or "" for the newest); None starts anew.
        origin: Where each setting came from, for the record.
        command: The words that started the run, for the record.
        listeners: Called with every event.
        relabel: Step and group to group, before selection; for control experiments.

    Raises:
        UsageError: a setting is wrong; nothing was written.
        RunError: the run cannot go on; what it had is kept.
    """
    refuse_running_loop("train", "await asyncio.to_thread(agentrl.train, config)")
    parallel = MODES[config.update.parallel]()
    if parallel.rank:
        return followed(assist(config, parallel))
    world = prepare(config, resume, origin or {}, command, listeners, parallel)
    asked = partial(world.emit, Stopping())
    with listening(asked) as interrupt, recorded(world) as outcome:
        found = asyncio.run(_run_and_close(world, interrupt, relabel or as_played))
        outcome.update(status=found.status)
    return found


async def _run_and_close(world: World, interrupt: Interrupt, relabel: Relabel) -> RunSummary:
    try:
        return await _run(world, interrupt, relabel)
    finally:
        await world.engine.close()
        if isinstance(world.learner, Leader):
            world.learner.close()


async def _run(world: World, interrupt: Interrupt, relabel: Relabel) -> RunSummary:
    world.emit(started(world))
    course = await begin(world)
    clock, standing, config = course.clock, world.standing, world.config.train
    rewards = list[float | None]()
    try:
        if standing.step == 0:
            await _measure(course)
            save(world, clock, 0)
        begun = clock.now()
        while standing.step < config.steps and not interrupt.asked:
            record = await step(course, relabel)
            rewards.append(record.row["reward"])
            show(world, record.row, clock.now() - begun)
            if _due(config.save_every, standing.step) or interrupt.asked:
                save(world, clock, course.pipeline.ahead)
        stopped = interrupt.asked and standing.step < config.steps
        if not stopped:
            await _finish(course)
    finally:
        await course.pipeline.close()
    clock.mark()
    return summary(world, rewards, "stopped" if stopped else "done")


async def begin(world: World, clock: Clock | None = None) -> Course:
    """Hand the weights over as they stand; play goes on from there."""
    clock = clock or Clock(
        world.standing.seconds, tell=lambda part, going: world.emit(Phased(cast(Part, part), going))
    )
    clock.marked = clock.now()
    course = Course(world, clock, copy.deepcopy(world.standing))
    course.pipeline = Pipeline(
        partial(_roll_out, course),
        first=world.standing.step + 1,
        before=partial(hand_over, course),
        now=clock.now,
    )
    await world.engine.load(world.weights, world.standing.version)
    course.loaded = world.standing.version
    return course


async def step(course: Course, relabel: Relabel) -> StepRecord:
    """Play many, choose few, learn from those, hand over."""
    world, clock, pipeline = course.world, course.clock, course.pipeline
    number, cap = world.standing.step + 1, world.learner.cap
    begun, before, busy = clock.now(), dict(clock.spent), pipeline.busy
    counted = world.engine.counters()
    rollout = await _take(course, number)
    idle = {"idle_learner": clock.now() - begun}
    with clock.phase("select"):
        chosen = _choose(world, [relabel(number, group) for group in rollout.played.groups], number)
    world.emit(picked(number, chosen))
    update = await learn(course, chosen)
    pipeline.refuse_if_broken()
    if world.engine.inflight or pipeline.idle:
        await hand_over(course)
    world.standing.step = number
    idle["idle_engine"] = clock.now() - begun - (pipeline.busy - busy)
    seconds = {name: clock.spent.get(name, 0.0) - before.get(name, 0.0) for name in STEP_PHASES}
    seconds |= {**idle, "rollout": rollout.seconds, "step": clock.now() - begun}
    count(world, chosen, update)
    levels = world.standing.levels
    row = step_row(
        step=number,
        version=world.standing.version,
        chosen=chosen,
        update=update,
        seconds=seconds,
        cap=cap,
        predicted=world.forecast.peak(update.widest) if update else None,
    )
    row |= engine_part(counted, world.engine.counters())
    if _due(world.config.train.eval_every, number):
        row |= _heldout(await _measure(course))
    row |= rollout.played.row
    row |= {f"curriculum/{name}": chance(name, levels) for name in levels}
    write(world, chosen, row)
    return StepRecord(rollout.played.groups, chosen, update, row)


async def _take(course: Course, number: int) -> Rollout:
    """This step's rollout; those ahead begin, with the newest weights that there are."""
    pipeline, world = course.pipeline, course.world
    rollout = await pipeline.take()
    world.standing.draw_like(rollout.drawn)
    if pipeline.idle:
        # Before this step's update begins: which weights play ahead then depends on no race.
        await hand_over(course)
    pipeline.allow(min(number + course.ahead, world.config.train.steps))
    return rollout


async def _roll_out(course: Course, number: int) -> Rollout:
    begun = course.clock.now()
    with course.clock.phase("rollout"):
        played = await play_step(course.world, course.drawing, number)
    return Rollout(played, copy.deepcopy(course.drawing), course.clock.now() - begun)


def _choose(world: World, groups: Sequence[Group], number: int) -> Chosen:
    s, update, cap = world.config.select, world.config.update, world.learner.cap
    return choose(
        groups,
        s.question(cap),
        stats=s.stats,
        loss=update.loss,
        seed=seed_for(world.config.train.seed, number, "0", 0),
        truncated=s.truncated,
        attention_length=s.attention_length,
        most_tokens=cap,
        version=world.standing.version,
        max_staleness=world.config.train.max_staleness,
    )


async def _measure(course: Course) -> Measurement | None:
    """Attempt the held-out tasks with the weights as they are, and record it."""
    world, clock = course.world, course.clock
    settings, seed = world.config.heldout, world.config.train.seed
    if not settings.tasks:
        return None
    await course.pipeline.rest()
    await hand_over(course)
    begun = clock.now()
    with clock.phase("eval"):
        found, groups = await measure(
            world.mixture.make,
            world.heldout,
            k=settings.k,
            seed=seed,
            world=world.play_heldout,
            on_done=counting(
                world.emit,
                "heldout",
                len(world.heldout) * settings.k,
                step=world.standing.step,
            ),
        )
    step = world.standing.step
    refuse_if_all_broke(groups, "held-out")
    every = [t for g in groups for t in g.trajectories]
    world.folder.write_episodes("heldout", step, every, tokens=world.config.record.tokens)
    world.measured[step] = found
    world.emit(Measured(step, found.accuracy, found.tasks, clock.now() - begun))
    return found


def _heldout(found: Measurement | None) -> dict[str, float | None]:
    """Accuracy together, and of each part of a mixture."""
    if found is None or found.accuracy is None:
        return {"heldout": None}
    parts = {f"heldout/{name}": part["mean"] for name, part in found.by.get("env", {}).items()}
    return {"heldout": found.accuracy.mean, **parts}


async def _finish(course: Course) -> None:
    if course.world.standing.step not in course.world.measured:
        await _measure(course)
    save(course.world, course.clock, 0)


def _due(every: int, step: int) -> bool:
    return every > 0 and step % every == 0


def as_played(step: int, group: Group) -> Group:
    """The group as it is: no control experiment."""
    return group
