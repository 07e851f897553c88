"""evaluate: a policy's accuracy on tasks, played as in training.

In    an EvalConfig: an environment; a model, a run's checkpoint or an endpoint; tasks, attempts
Out   Evaluation; header, one line an episode as it ends, and summary where a folder is given
Not   a change to the run whose checkpoint is measured

Figures come from lines, never from memory: an evaluation that was broken off and taken up ends in
the same summary as one that was not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrl import disk, header, journal, performer
from agentrl.attempt import Attempt, attempt_in, row_of
from agentrl.blocking import refuse_running_loop
from agentrl.config import EvalConfig
from agentrl.episode import Seat
from agentrl.errors import RunError, UsageError
from agentrl.events import Evaluated, Evaluating, Listener, Played, episode_of, tell
from agentrl.group import seed_for
from agentrl.journal import Journal
from agentrl.log import logged
from agentrl.measure import SEED_STEP, Measurement, distinct, summary_of
from agentrl.mixture import Mixture, mixture_of
from agentrl.performer import Performer
from agentrl.player import play_seats
from agentrl.task import Task
from agentrl.tomlfile import dump_toml
from agentrl.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was measured, of what."""

    header: Mapping[str, Any]
    model: str
    measurement: Measurement
    usage: Mapping[str, float] | None
    """What an endpoint counted, all episodes together."""
    path: str | None
    """Folder of the episodes, where one was asked for."""

    def as_json(self) -> dict[str, Any]:
        """The document that `agentrl eval --json` prints."""
        return {**self.summary(), "path": self.path}

    def summary(self) -> dict[str, Any]:
        """The same without its place: what summary.json holds."""
        h = self.header
        found = disk.plain(self.measurement.as_json())
        usage = {} if self.usage is None else {"usage": dict(self.usage)}
        template = h["template"]["source"]
        return {
            "env": h["env"],
            "model": self.model,
            "split": h["split"],
            **found,
            **usage,
            "temperature": h["sampling"]["temperature"],
            "template": template,
        }


@dataclass(slots=True)
class Sitting:
    """One evaluation under way: settings, tasks, what was played before, where lines go."""

    config: EvalConfig
    mixture: Mixture
    tasks: Sequence[Task]
    out: Path | None
    attempts: dict[tuple[int, int], Attempt]
    used: dict[tuple[int, int], Mapping[str, float]]
    header: Mapping[str, Any]
    problem: str = ""
    """What broke the first episode that broke."""
    command: Sequence[str] = ()


def nothing() -> None:
    """Nobody waits for it."""


def evaluate(
    config: EvalConfig,
    *,
    resume: bool = False,
    command: Sequence[str] = (),
    listeners: Sequence[Listener] = (),
) -> Evaluation:
    """Measure a policy on tasks.

    Args:
        config: All settings; with `resume` those that the evaluation began with.
        resume: Go on with the evaluation in `config.out`.
        command: The words that started it, for the header.
        listeners: Told of each episode.

    Raises:
        UsageError: a setting is wrong, the folder holds an evaluation already, or, with
            `resume`, anything that figures depend on has changed.
    """
    return evaluate_all([config], resume=resume, command=command, listeners=listeners)[0]


def evaluate_all(
    configs: Sequence[EvalConfig],
    *,
    resume: bool = False,
    command: Sequence[str] = (),
    listeners: Sequence[Listener] = (),
    opened: Callable[[], None] = nothing,
) -> list[Evaluation]:
    """Measure one policy in several environments, loading it once; `evaluate` says the rest.

    The policy, its engine and the endpoint are those of the first settings. `opened` is called
    when all folders are this process's own and each has its settings.
    """
    refuse_running_loop("evaluate", "await asyncio.to_thread(agentrl.evaluate, config)")
    with ExitStack() as held:
        for config in configs:
            _open(config, resume, held)
        opened()
        configs = [performer.pinned(config) for config in configs]
        parts = [_tasks(config) for config in configs]
        longest = max(config.rollout.max_context for config in configs)
        who = performer.performer_of(configs[0], longest)
        sittings = [
            _sit(config, *part, who, resume, command)
            for config, part in zip(configs, parts, strict=True)
        ]
        return asyncio.run(_play(sittings, who, listeners))


def _tasks(config: EvalConfig) -> tuple[Mixture, list[Task]]:
    mixture = mixture_of(config.env.name, config.env.options)
    return mixture, distinct(mixture.source(config.eval.split), config.eval.tasks, mixture.name)


def _open(config: EvalConfig, resume: bool, held: ExitStack) -> None:
    """Make the folder one's own; refuse it where an evaluation would be overwritten."""
    if not config.out:
        return
    out = Path(config.out)
    begun = (out / header.SUMMARY).exists() or any(journal.rows(out / header.EPISODES))
    if begun and not resume:
        raise UsageError(
            f"--out {out}: it holds an evaluation. Add --resume to go on with it, "
            "or give another folder."
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = disk.hold(out)
    except OSError as error:
        there = next(p for p in (out, *out.absolute().parents) if p.exists())
        raise UsageError(
            f"--out {out}: cannot be written at {there}. Give a folder that can."
        ) from error
    if lock is None:
        raise UsageError(
            f"--out {out}: another process is evaluating into it. Wait for it, or give another."
        )
    held.callback(lock.close)
    disk.sweep(out)
    if not (out / header.NAME).exists():
        # First of all: whoever goes on with it begins with them.
        disk.put(out / header.SETTINGS, dump_toml(config))


def _sit(
    config: EvalConfig,
    mixture: Mixture,
    tasks: Sequence[Task],
    who: Performer,
    resume: bool,
    command: Sequence[str],
) -> Sitting:
    found: dict[str, Any] = disk.plain(header.header_of(config, tasks, who.identity, command))
    out = Path(config.out) if config.out else None
    sitting = Sitting(config, mixture, tasks, out, {}, {}, found, command=command)
    if out is None:
        return sitting
    if resume and (out / header.NAME).exists():
        old = header.read(out)
        changed = header.unlike(old, found, header.SAME)
        if changed:
            raise UsageError(
                f"--resume {out}: not what it began with ({', '.join(changed)}). An evaluation "
                "goes on as it began. Leave the settings out, or start anew in another folder."
            )
        sitting.header = old | {"launches": [*old["launches"], *found["launches"]]}
        _remember(sitting)
    else:
        disk.put(out / header.SETTINGS, dump_toml(config))
    header.write(out, sitting.header)
    return sitting


def _remember(sitting: Sitting) -> None:
    """Take up the lines there are; an episode that was broken is played again."""
    assert sitting.out is not None
    places = {task.hash: position for position, task in enumerate(sitting.tasks)}
    for row in journal.rows(sitting.out / header.EPISODES):
        position = places.get(str(row.get("task_hash")))
        if position is None:
            continue
        try:
            _take(sitting, (position, int(row["member"])), row)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UsageError(
                f"{sitting.out / header.EPISODES}: a line of task {row.get('task_id')} is no "
                f"episode ({error!r}). Take the line out; its episode is then played again."
            ) from error
    for session in [s for s, a in sitting.attempts.items() if a.status == "error"]:
        del sitting.attempts[session]


def _take(sitting: Sitting, session: tuple[int, int], row: Mapping[str, Any]) -> None:
    sitting.attempts[session] = attempt_in(row)
    sitting.used[session] = row.get("usage", {})
    if row["status"] == "error":
        sitting.problem = sitting.problem or str(row.get("problem", ""))


async def _play(
    sittings: Sequence[Sitting], who: Performer, listeners: Sequence[Listener]
) -> list[Evaluation]:
    try:
        await who.begin()
        return [await _play_one(sitting, who, listeners) for sitting in sittings]
    finally:
        await who.close()


async def _play_one(sitting: Sitting, who: Performer, listeners: Sequence[Listener]) -> Evaluation:
    config, seed = sitting.config, sitting.config.eval.seed
    player = who.player(sitting.mixture, sitting.tasks, config)
    seats = [
        Seat(task, position, member, seed_for(seed, SEED_STEP, task.hash, member))
        for position, task in enumerate(sitting.tasks)
        for member in range(config.eval.k)
    ]
    tell(listeners, _begun(sitting, who))
    lines = Journal(sitting.out / header.EPISODES) if sitting.out else None
    report = _reporting(sitting, lines, len(seats), listeners)
    logs = logged(sitting.out / "logs", sitting.command) if sitting.out else nullcontext()
    try:
        known = set(sitting.attempts)
        with logs:
            await play_seats(sitting.mixture.make, seats, player, known, report)
    finally:
        if lines is not None:
            lines.close()
    found = _conclude(sitting, who)
    m = found.measurement
    tell(listeners, Evaluated(config.env.name, m.accuracy, m.episodes, m.errors))
    return found


def _begun(sitting: Sitting, who: Performer) -> Evaluating:
    c = sitting.config
    known = len(sitting.attempts)
    tasks, split = len(sitting.tasks), c.eval.split
    return Evaluating(c.env.name, who.name, split, tasks, c.eval.k, sitting.out, known)


def _reporting(
    sitting: Sitting, lines: Journal | None, of: int, listeners: Sequence[Listener]
) -> Callable[[Trajectory, Mapping[str, Any]], None]:
    places = {task.hash: position for position, task in enumerate(sitting.tasks)}

    def report(trajectory: Trajectory, facts: Mapping[str, Any]) -> None:
        row = row_of(trajectory, facts)
        if lines is not None:
            lines.add(row)
        _take(sitting, (places[trajectory.task.hash], trajectory.member), row)
        tell(listeners, Played("eval", len(sitting.attempts), of, episode_of(trajectory)))

    return report


def _conclude(sitting: Sitting, who: Performer) -> Evaluation:
    order = sorted(sitting.attempts)
    rows: list[list[Attempt]] = [[] for _ in sitting.tasks]
    for session in order:
        rows[session[0]].append(sitting.attempts[session])
    every = list(sitting.attempts.values())
    if every and all(a.status == "error" for a in every):
        raise RunError(
            f"eval: the environment broke all {len(every)} episodes, each of them twice. "
            f"The first said: {sitting.problem.rstrip('. ')}. Mend it and go on with --resume."
        )
    usage = _usage([sitting.used[session] for session in order])
    result = Evaluation(
        sitting.header,
        who.name,
        summary_of(rows, sitting.config.eval.k),
        usage,
        str(sitting.out) if sitting.out else None,
    )
    if sitting.out is not None:
        text = json.dumps(result.summary(), indent=2, ensure_ascii=False)
        disk.put(sitting.out / header.SUMMARY, text + "\n")
    return result


def _usage(every: Sequence[Mapping[str, float]]) -> dict[str, float] | None:
    if not any(every):
        return None
    total: dict[str, float] = {}
    for used in every:
        for name, value in used.items():
            # Lines say how often a request was tried; that is the network's, not the policy's.
            if name != "retries":
                total[name] = total.get(name, 0) + value
    return total
