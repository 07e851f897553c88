"""A new reward on old episodes, without a model.

In    recorded episodes; a reward as a function, or the environment as it is now
Out   an evaluation's folder beside the old one: header, lines with the new reward, summary
Not   a change to what was recorded

A function is given the task and the trajectory. The environment's own reward may need what its
tools did, so there the recorded turns are played again: tools run, the policy's words are the old
ones. Episodes to which the environment now says something else are counted.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import inspect
import itertools
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agentrl import disk, header
from agentrl.attempt import Attempt, attempt_in
from agentrl.author import run_author
from agentrl.errors import AgentRLError, EnvironmentFault, UsageError, blame
from agentrl.journal import Journal
from agentrl.measure import summary_of
from agentrl.mixture import Mixture, mixture_of
from agentrl.recorded import Recorded, task_of
from agentrl.replay import replayed, trajectory_of
from agentrl.scoring import TOOLS, EpisodeEnd, score
from agentrl.task import Task
from agentrl.trajectory import Stop, Trajectory

T = TypeVar("T")
Reward = Callable[[Task, Trajectory], Any]

AGAIN = "Nothing was kept. Make room, or give a folder elsewhere with --out."
"""What to do where the disk takes no more."""
SYNC = 10_000
"""Lines after which the disk is waited for: what is lost here is made again."""
TOGETHER = 64
"""Episodes that are scored side by side."""
FOLDER = "rescored"


@dataclass(frozen=True, slots=True)
class Rescored:
    """What a new reward makes of old episodes."""

    reward: str
    episodes: int
    changed: int
    """Episodes whose reward or correctness is another."""
    to_right: int
    to_wrong: int
    broken: int
    """Episodes that the new reward failed on, or gave none for."""
    problem: str
    """What the first of them said."""
    unknown: int
    """Episodes whose task the environment no longer has; they keep no reward."""
    diverged: int
    """Episodes in which the environment said something else when they were played again."""
    summary: Mapping[str, Any]
    path: str

    def as_json(self) -> dict[str, Any]:
        """The document that `agentrl rescore --json` prints."""
        names = ("reward", "episodes", "changed", "to_right", "to_wrong", "broken", "problem")
        counted = {name: getattr(self, name) for name in (*names, "unknown", "diverged")}
        return {**counted, "accuracy": self.summary["accuracy"], "path": self.path}


@dataclass(slots=True)
class _Count:
    episodes: int = 0
    changed: int = 0
    to_right: int = 0
    to_wrong: int = 0
    broken: int = 0
    problem: str = ""
    unknown: int = 0
    diverged: int = 0


@dataclass(frozen=True, slots=True)
class _Judge:
    """Who gives the new rewards."""

    mixture: Mixture
    tasks: Mapping[str, Task]
    """By hash, and by id those that lines know no hash of."""
    reward: Reward | None
    split: str
    timeout: float


def rescore(recorded: Recorded, reward: str = "", out: str = "") -> Rescored:
    """Score recorded episodes again.

    Args:
        recorded: The episodes.
        reward: `path/file.py:function`; empty: the environment's own.
        out: Folder to write; empty: the first free one under `rescored/` beside the episodes.

    Raises:
        UsageError: there is no such function or environment, or the folder is taken.
    """
    known = recorded.header
    fn = load_reward(reward) if reward else None
    mixture = mixture_of(known["env"], known["options"])
    limits = known.get("limits", {})
    tasks = _tasks(mixture, recorded)
    judge = _Judge(mixture, tasks, fn, known["split"], float(limits.get("timeout", 600.0)))
    named = f"{reward} sha256 {_sha256(reward)}" if reward else "environment, played again"
    new = {**known, "schema": header.SCHEMA, "reward": named, "rescored_from": recorded.name}
    new["launches"] = [*known.get("launches", ()), header.launch(("agentrl", "rescore"))]
    folder = _folder(recorded, out)
    try:
        count, summary = _written(recorded, judge, folder, new)
    except BaseException:
        # Half of it would look like a whole one, and it can be made again.
        shutil.rmtree(folder, ignore_errors=True)
        raise
    counted = {name: getattr(count, name) for name in _Count.__slots__}
    return Rescored(reward=named, summary=summary, path=str(folder), **counted)


def _written(
    recorded: Recorded, judge: _Judge, folder: Path, new: Mapping[str, Any]
) -> tuple[_Count, dict[str, Any]]:
    header.write(folder, new, AGAIN)
    count, attempts = _Count(), dict[tuple[str, int], Attempt]()
    lines = Journal(folder / header.EPISODES, AGAIN, SYNC)
    try:
        asyncio.run(_all(recorded, judge, lines, count, attempts))
    finally:
        lines.close()
    summary = _summary(new, attempts)
    disk.put(folder / header.SUMMARY, json.dumps(summary, indent=2) + "\n", AGAIN)
    return count, summary


def load_reward(text: str) -> Reward:
    """The function that `path/file.py:function` names."""
    place, _, name = text.rpartition(":")
    where = f"--reward {text}"
    if not place.endswith(".py") or not name:
        raise UsageError(f"{where}: no function. Write path/file.py:function.")
    if not Path(place).is_file():
        raise UsageError(f"{where}: no such file. Write path/file.py:function.")
    spec = importlib.util.spec_from_file_location(f"agentrl_reward_{Path(place).stem}", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with blame(UsageError, where):
        spec.loader.exec_module(module)
    fn = getattr(module, name, None)
    if not callable(fn):
        raise UsageError(f"{where}: {place} has no function {name}. Name one that it defines.")
    with blame(UsageError, where):
        inspect.signature(fn).bind(None, None)
    found: Reward = fn
    return found


async def _all(
    recorded: Recorded,
    judge: _Judge,
    lines: Journal,
    count: _Count,
    attempts: dict[tuple[str, int], Attempt],
) -> None:
    """Some at a time, in their order: no more than those are in memory."""
    for some in _batches(recorded.rows(), TOGETHER):
        with _episodes(recorded):
            pairs = [(row, _old(row, judge)) for row in some]
        ended = await asyncio.gather(*(_one(row, old, judge, count) for row, old in pairs))
        for row, new in zip(some, ended, strict=True):
            _tally(row, new, count)
            lines.add(new)
            with _episodes(recorded):
                attempts[(task_of(row), int(row["member"]))] = attempt_in(new)


@contextmanager
def _episodes(recorded: Recorded) -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise UsageError(
            f"{recorded.name}: a line is not an episode as a run or an evaluation writes it "
            f"({error!r}). Name another file, or take the line out."
        ) from error


def _old(row: Mapping[str, Any], judge: _Judge) -> Trajectory | None:
    """The episode that a line tells of; None where its task is no longer there."""
    task = judge.tasks.get(task_of(row)) or judge.tasks.get(str(row["task_id"]))
    return None if task is None else trajectory_of(row, task)


async def _one(
    row: Mapping[str, Any], old: Trajectory | None, judge: _Judge, count: _Count
) -> dict[str, Any]:
    if row["stop"] == Stop.ENV_ERROR:
        return dict(row)
    if old is None:
        count.unknown += 1
        return _row(row, EpisodeEnd(Stop(row["stop"]), problem="the task is no longer there."))
    try:
        end, same = await asyncio.wait_for(_scored(row, old, judge), judge.timeout)
    except (AgentRLError, TimeoutError) as error:
        problem = str(error) or f"the reward took over {judge.timeout:g} s"
        end, same = EpisodeEnd(Stop.ENV_ERROR, problem=problem), True
    count.diverged += not same
    count.broken += end.reward is None
    count.problem = count.problem or end.problem
    return _row(row, end)


async def _scored(
    row: Mapping[str, Any], old: Trajectory, judge: _Judge
) -> tuple[EpisodeEnd, bool]:
    env = judge.mixture.make(old.task)
    if judge.reward is None:
        return await replayed(env, old, judge.split)
    with blame(EnvironmentFault, "the new reward"):
        value = await run_author(judge.reward, old.task, old)
    tools = float((row.get("reward_parts") or {}).get(TOOLS, 0.0))
    return score(old.stop, value, tools, env.success), True


def _row(row: Mapping[str, Any], end: EpisodeEnd) -> dict[str, Any]:
    out = {name: value for name, value in row.items() if name != "problem"}
    out |= {
        "reward": end.reward,
        "reward_parts": None if end.parts is None else dict(end.parts),
        "correct": end.correct,
        "stop": end.stop.value,
        "status": end.stop.status,
        "old_reward": row["reward"],
        "old_correct": row.get("correct"),
    }
    return out | ({"problem": end.problem} if end.problem else {})


def _tally(row: Mapping[str, Any], new: Mapping[str, Any], count: _Count) -> None:
    count.episodes += 1
    before, after = row.get("correct"), new.get("correct")
    count.changed += (row["reward"], before) != (new["reward"], after)
    count.to_right += bool(after) and not before
    count.to_wrong += bool(before) and not after


def _tasks(mixture: Mixture, recorded: Recorded) -> dict[str, Task]:
    """The tasks of all lines, as far as the environment still has them."""
    named = {task_of(row): str(row["task_id"]) for row in recorded.rows()}
    if not named:
        raise UsageError(f"{recorded.name}: it has no episodes. There is nothing to score.")
    source, ids = mixture.source(recorded.header["split"]), set(named.values())
    found, by_id = dict[str, Task](), dict[str, Task]()
    for index in range(len(source)):
        if len(found) == len(named):
            break
        task = source[index]
        if task.hash in named:
            found.setdefault(task.hash, task)
        if str(task.id) in ids:
            by_id.setdefault(str(task.id), task)
            if str(task.id) in named:
                found.setdefault(str(task.id), task)
    return by_id | found


def _folder(recorded: Recorded, out: str) -> Path:
    """A fresh folder: what was recorded, or scored before, is never written over."""
    root = recorded.folder / FOLDER
    try:
        if out:
            folder = Path(out)
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise UsageError(f"--out {out}: it is not empty. Give a new folder.")
            return folder
        root.mkdir(exist_ok=True)
        for number in itertools.count(1):
            folder = root / f"{number:03d}"
            with suppress(FileExistsError):
                folder.mkdir()
                return folder
    except OSError as error:
        raise UsageError(
            f"{out or root}: cannot be written ({error.strerror}). Give another folder with --out."
        ) from error
    raise AssertionError("numbers do not end")


def _summary(
    known: Mapping[str, Any], attempts: Mapping[tuple[str, int], Attempt]
) -> dict[str, Any]:
    rows: dict[str, list[Attempt]] = {}
    for (task, _), attempt in sorted(attempts.items()):
        rows.setdefault(task, []).append(attempt)
    found = summary_of(list(rows.values()), int(known["k"]))
    plain: dict[str, Any] = disk.plain(found.as_json())
    names = ("env", "split", "reward")
    return {**{name: known[name] for name in names}, "model": known["model"]["name"], **plain}


def _sha256(reward: str) -> str:
    place = Path(reward.rpartition(":")[0])
    return hashlib.sha256(place.read_bytes()).hexdigest()[:12]


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    left = iter(items)
    while some := list(itertools.islice(left, size)):
        yield some
