"""Check of what stays behind: processes, descriptors, threads, files, variables, shared state.

In    a Bench
Out   Problems
Not   memory; nor what an environment keeps once for all of its instances, if it does not change
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numpy as np

from agentrl.checks.bench import SEED, Bench
from agentrl.checks.report import Problem
from agentrl.checks.surroundings import Surroundings, put_back, surroundings, temporary_folder
from agentrl.env import ToolEnv

TIMES = 3
"""Instances whose episodes are played, half of them given up in the middle."""
KEPT = (bool, bytearray, deque, dict, float, int, list, np.ndarray, set, str)
"""Kinds of values of a class or a module that an episode may not change."""
READ = 1000
"""Entries of such a value up to which it is read; of more only how many there are."""
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
        before, files, here, kept = surroundings(), _files(folder), _here(), _kept(bench)
        for _ in range(TIMES):
            _play(bench)
        more = _grown(before, folder, files)
        more["file in the working folder"] = len(_here() - here)
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
        yield from _unfinished(bench)


def _play(bench: Bench) -> None:
    """A whole episode, one with every tool, and one that nobody finishes."""
    task = bench.tasks[0]
    for words in {bench.scripts(task)[0], bench.scripts(task)[-1]}:
        bench.play(task, words)
    env = bench.subject.make()
    env.reset(seed=SEED, options={"task": task})
    env.step(bench.words(task)[0])
    env.close()


def _unfinished(bench: Bench) -> Iterator[Problem]:
    """Tasks of an event loop that still run when the episode is over."""
    names = asyncio.run(_running(bench, bench.scripts(bench.tasks[0])))
    if names:
        yield Problem(
            bench.subject.line("release", "start"),
            f"an episode leaves an asyncio task behind: {names[0]}.",
            "Cancel it in release, and wait for its end.",
        )


async def _running(bench: Bench, scripts: Sequence[Sequence[str]]) -> list[str]:
    task, before = bench.tasks[0], asyncio.all_tasks()
    for words in scripts:
        env = bench.subject.make()
        await env.areset(seed=SEED, options={"task": task})
        for text in words:
            if env.end is None:
                await env.astep(text)
        await env.arelease()
    until = time.monotonic() + PATIENCE
    while left := [t for t in asyncio.all_tasks() - before if not t.done()]:
        if time.monotonic() > until:
            break
        await asyncio.sleep(0.01)
    return sorted(getattr(t.get_coro(), "__qualname__", t.get_name()) for t in left)


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


def _kept(bench: Bench) -> dict[tuple[str, str], str]:
    """What the author's classes and modules hold for all instances, and the tasks, as text."""
    kinds = bench.subject.kind.__mro__
    written = kinds[: kinds.index(ToolEnv)]
    holders: dict[str, Any] = {kind.__name__: kind for kind in written}
    modules = {kind.__module__ for kind in written}
    holders |= {f"module {name}": sys.modules[name] for name in modules if name in sys.modules}
    found = {
        (holder, name): text
        for holder, owner in holders.items()
        for name, value in list(vars(owner).items())
        if not name.startswith("__") and (text := _read(value, modules)) is not None
    }
    task = bench.tasks[0]
    return {
        ("its task", "meta"): repr(task.meta),
        ("its task", "answer"): repr(task.answer),
        **found,
    }


def _read(value: Any, modules: Collection[str]) -> str | None:
    """A value as text that changes with it; None for what an author did not make to be changed."""
    if isinstance(value, np.ndarray):
        return value.tobytes().hex() if value.size <= READ else str(value.shape)
    if isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, KEPT):
        size = len(cast("Sized", value))
        return repr(value) if size <= READ else str(size)
    if type(value).__module__ in modules and not isinstance(value, type):
        return repr(getattr(value, "__dict__", None))
    return None


def _remembered(
    bench: Bench, before: Mapping[tuple[str, str], str], after: Mapping[tuple[str, str], str]
) -> Iterator[Problem]:
    """The same task was played again: what still differs comes from the episodes."""
    changed = [key for key in after if before.get(key) != after[key]]
    for holder, name in changed[:1]:
        if holder == "its task":
            yield Problem(
                bench.subject.line("start"),
                f"episodes change the {name} of their task, which other episodes play too.",
                "Copy what an episode changes in start.",
            )
            continue
        inside = holder.startswith("module ")
        yield Problem(
            bench.subject.assigned(name) or bench.subject.line(name),
            f"episodes change {name if inside else f'{holder}.{name}'}, which all instances share.",
            f"Make it anew in start: self.{name} = ...",
        )


def _here() -> set[str]:
    with suppress(OSError):
        return set(os.listdir())
    return set()


def _files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}
