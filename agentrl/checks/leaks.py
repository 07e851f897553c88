"""Check of what stays behind: processes, descriptors, threads, files, variables, class state.

In    a Bench
Out   Problems
Not   memory; nor what an environment keeps once for all of its instances, if it does not change
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentrl.checks.bench import SEED, Bench
from agentrl.checks.report import Problem
from agentrl.checks.surroundings import Surroundings, put_back, surroundings, temporary_folder
from agentrl.env import ToolEnv

TIMES = 3
"""Instances whose episodes are played, half of them given up in the middle."""
KEPT = (bool, bytearray, deque, dict, float, int, list, set, str)
"""Kinds of class attributes that an episode may not change."""
PATIENCE = 2.0
"""Seconds in which what is ending may end."""


def leaks(bench: Bench) -> Iterator[Problem]:
    """Nothing is left behind by instances that are closed."""
    bench.renderer  # noqa: B018 (loading it is not the environment's doing)
    where = bench.subject.line("release", "start")
    with put_back(), temporary_folder() as folder:
        first = surroundings()
        # What is there once for all instances is made by the first of them.
        _play(bench)
        before, files, kept = surroundings(), _files(folder), _kept(bench)
        for _ in range(TIMES):
            _play(bench)
        more = _grown(before, folder, files)
        for name, count in more.items():
            if count >= TIMES:
                yield Problem(
                    where,
                    f"{2 * TIMES} episodes left {count} more of this behind: {name}.",
                    "Give back in release what start opened; release is called however an "
                    "episode ends.",
                )
        yield from _changed(bench, first, surroundings())
        yield from _remembered(bench, kept, _kept(bench))


def _play(bench: Bench) -> None:
    """A whole episode, and one that nobody finishes."""
    task = bench.tasks[0]
    bench.play(task, bench.words(task))
    env = bench.subject.make()
    env.reset(seed=SEED, options={"task": task})
    env.step(bench.words(task)[0])
    env.close()


def _grown(before: Surroundings, folder: Path, files: set[str]) -> dict[str, int]:
    """What there is more of, once there was time to end."""
    until = time.monotonic() + PATIENCE
    while True:
        more = surroundings() - before
        if new := len(_files(folder) - files):
            more["temporary file"] = new
        if not any(count >= TIMES for count in more.values()) or time.monotonic() > until:
            return more
        time.sleep(0.05)


def _changed(bench: Bench, before: Surroundings, after: Surroundings) -> Iterator[Problem]:
    where = bench.subject.line("start", "release")
    names = before.variables.keys() | after.variables.keys()
    changed = sorted(n for n in names if before.variables.get(n) != after.variables.get(n))
    if changed:
        yield Problem(
            where,
            f"it changes environment variables of the process: {', '.join(changed[:5])}.",
            "Pass env= to the processes that need them.",
        )
    if before.folder != after.folder:
        yield Problem(
            where,
            f"it changes the working folder to {after.folder or 'one that is gone'}.",
            "Use absolute paths, and cwd= for processes.",
        )


def _kept(bench: Bench) -> dict[tuple[type, str], str]:
    """What the author's classes hold for all of their instances."""
    kinds = bench.subject.kind.__mro__
    written = kinds[: kinds.index(ToolEnv)]
    return {
        (kind, name): repr(value)
        for kind in written
        for name, value in vars(kind).items()
        if isinstance(value, KEPT) and not name.startswith("__")
    }


def _remembered(
    bench: Bench, before: Mapping[tuple[type, str], str], after: Mapping[tuple[type, str], str]
) -> Iterator[Problem]:
    """The same task was played again: what still differs comes from the episodes."""
    changed = [key for key in after if before.get(key) != after[key]]
    for kind, name in changed[:1]:
        yield Problem(
            bench.subject.line(name),
            f"episodes change {kind.__name__}.{name}, which all instances share.",
            f"Make it anew in start: self.{name} = ...",
        )


def _files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}
