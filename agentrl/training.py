"""train: play many, choose few, learn from those, hand over. And again.

In    a TrainConfig, listeners
Out   a run folder (record.py) and a RunSummary
Not   a display: listeners show what happens
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agentrl import checkpoint
from agentrl.blocking import refuse_running_loop
from agentrl.chosen import Chosen, choose, samples
from agentrl.config import TrainConfig
from agentrl.curriculum import chance, counted
from agentrl.events import Listener, Measured, Started, Stepped, Warned, counting
from agentrl.figures import UpdateReport
from agentrl.group import Group, outcome_of, play_groups, seed_for
from agentrl.interrupt import Interrupt, listening
from agentrl.interval import Interval
from agentrl.measure import Measurement, measure, refuse_if_all_broke
from agentrl.metrics import step_row
from agentrl.parallel import MODES
from agentrl.ranks import Leader
from agentrl.selection.report import SHORT
from agentrl.state import draw
from agentrl.world import World, assist, note, prepare, recorded

Relabel = Callable[[int, Group], Group]
STEP_PHASES = ("rollout", "select", "update", "sync")


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


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one step did."""

    groups: Sequence[Group]
    chosen: Chosen
    update: UpdateReport | None
    """None where every group was flat."""
    row: Mapping[str, Any]


FLAT = (
    "without contrast in any group. Nothing is learned: tasks are too easy, too hard, or all "
    "earn the same. Change the tasks' difficulty, or raise --n."
)
SHORTER = (
    f"the kept trajectories have under {SHORT:.0%} of the tokens of others with their reward. "
    "Short ones are rewarded on the quiet. Raise --token-budget, or use --within random or ht."
)


@dataclass(slots=True)
class Clock:
    """Seconds by phase and in total; time comes in through the door."""

    spent: dict[str, float]
    """Goes on counting where a resumed run left off."""
    now: Callable[[], float] = time.monotonic
    marked: float = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the seconds of a block under a name."""
        start = self.now()
        try:
            yield
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + self.now() - start

    def mark(self) -> None:
        """Add the seconds since the last mark to the total."""
        now = self.now()
        self.spent["total"] = self.spent.get("total", 0.0) + now - self.marked
        self.marked = now


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
        return _followed(assist(config, parallel))
    world = prepare(config, resume, origin or {}, command, listeners, parallel)
    with listening() as interrupt, recorded(world) as outcome:
        summary = asyncio.run(_run_and_close(world, interrupt, relabel or as_played))
        outcome.update(status=summary.status)
    return summary


async def _run_and_close(world: World, interrupt: Interrupt, relabel: Relabel) -> RunSummary:
    try:
        return await _run(world, interrupt, relabel)
    finally:
        await world.engine.close()
        if isinstance(world.learner, Leader):
            world.learner.close()


async def _run(world: World, interrupt: Interrupt, relabel: Relabel) -> RunSummary:
    config, standing = world.config, world.standing
    clock = Clock(standing.seconds)
    clock.marked = clock.now()
    world.emit(_started(world))
    await world.engine.load(world.weights, standing.version)
    if standing.step == 0:
        await _measure(world, clock)
        _save(world, clock)
    begun, rewards = clock.now(), list[float | None]()
    while standing.step < config.train.steps and not interrupt.asked:
        record = await step(world, clock, relabel)
        rewards.append(record.row["reward"])
        _show(world, record, clock.now() - begun)
        if _due(config.train.save_every, standing.step) or interrupt.asked:
            _save(world, clock)
    stopped = interrupt.asked and standing.step < config.train.steps
    if not stopped:
        await _finish(world, clock)
    clock.mark()
    return _summary(world, rewards, "stopped" if stopped else "done")


async def step(world: World, clock: Clock, relabel: Relabel) -> StepRecord:
    """Play many, choose few, learn from those, hand over."""
    number = world.standing.step + 1
    cap = world.learner.cap
    begun, before = clock.now(), dict(clock.spent)
    with clock.phase("rollout"):
        groups = await _play(world, number)
    with clock.phase("select"):
        chosen = _choose(world, [relabel(number, group) for group in groups], number)
    with clock.phase("update"):
        update = _learn(world, chosen)
    with clock.phase("sync"):
        await _hand_over(world, update)
    world.standing.step = number
    seconds = {name: clock.spent[name] - before.get(name, 0.0) for name in STEP_PHASES}
    seconds["step"] = clock.now() - begun
    _count(world, chosen, update)
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
    if _due(world.config.train.eval_every, number):
        found = await _measure(world, clock)
        row |= _heldout(found)
    row |= {f"curriculum/{name}": chance(name, levels) for name in levels}
    _write(world, chosen, row)
    return StepRecord(groups, chosen, update, row)


async def _play(world: World, number: int) -> list[Group]:
    config, standing = world.config, world.standing
    train = config.train
    tasks = draw(
        world.source,
        standing,
        seed=train.seed,
        count=train.tasks_per_step,
        curriculum=train.curriculum,
    )
    groups = await play_groups(
        world.mixture.make,
        tasks,
        n=config.select.n,
        seed_of=lambda task, member: seed_for(config.train.seed, number, task.hash, member),
        world=world.play,
        on_done=counting(world.emit, "rollout", len(tasks) * config.select.n),
    )
    refuse_if_all_broke(groups, f"step {number}")
    if train.curriculum:
        standing.levels = counted(standing.levels, [outcome_of(group) for group in groups])
    return groups


def _learn(world: World, chosen: Chosen) -> UpdateReport | None:
    rows = samples(chosen)
    if not rows:
        return None
    done = world.learner.step(rows, len(chosen.kept))
    if world.forecast.cap < world.learner.cap:
        world.learner.cap = world.forecast.cap
    return done


async def _hand_over(world: World, update: UpdateReport | None) -> None:
    if update is not None and not update.skipped:
        world.standing.version += 1
        await world.engine.load(world.weights, world.standing.version)


def _write(world: World, chosen: Chosen, row: Mapping[str, Any]) -> None:
    world.folder.write_episodes(
        "groups",
        world.standing.step,
        chosen.trajectories,
        chosen.marks,
        tokens=world.config.record.tokens,
    )
    world.folder.write_metrics(row)


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
    )


def _count(world: World, chosen: Chosen, update: UpdateReport | None) -> None:
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
    for count, what in ((standing.flat_in_a_row, FLAT), (standing.shorter_in_a_row, SHORTER)):
        if count == patience and not chosen.oversize:
            world.emit(Warned(f"step {standing.step}: {count} steps in a row {what}"))


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


async def _measure(world: World, clock: Clock) -> Measurement | None:
    """Attempt the held-out tasks with the weights as they are, and record it."""
    settings, seed = world.config.heldout, world.config.train.seed
    if not settings.tasks:
        return None
    begun = clock.now()
    with clock.phase("eval"):
        found, groups = await measure(
            world.mixture.make,
            world.heldout,
            k=settings.k,
            seed=seed,
            world=world.play_heldout,
            on_done=counting(world.emit, "heldout", len(world.heldout) * settings.k),
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


async def _finish(world: World, clock: Clock) -> None:
    if world.standing.step not in world.measured:
        await _measure(world, clock)
    _save(world, clock)


def _save(world: World, clock: Clock) -> None:
    clock.mark()
    note(world)
    keep = world.config.train.keep_checkpoints
    checkpoint.save(world.folder.checkpoints, world.standing.step, world.parts, keep=keep)


def _show(world: World, record: StepRecord, elapsed: float) -> None:
    done = world.standing.step - world.first_step + 1
    steps = world.config.train.steps
    left = elapsed / done * (steps - world.standing.step)
    world.emit(Stepped(record.row, steps, elapsed, left))


def _summary(world: World, rewards: Sequence[float | None], status: str) -> RunSummary:
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


def _followed(steps: int) -> RunSummary:
    tokens = dict.fromkeys(("sampled", "trained", "forwarded"), 0)
    return RunSummary("", "followed", steps, None, None, {}, tokens, None, None)


def _started(world: World) -> Started:
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
    )


def _due(every: int, step: int) -> bool:
    return every > 0 and step % every == 0


def as_played(step: int, group: Group) -> Group:
    """The group as it is: no control experiment."""
    return group
