"""Checks from another process: the same text leads to the same tasks, and vectorises.

In    a Bench
Out   Problems
Not   another machine: both processes are here
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from agentrl.checks.bench import SEED, Bench, Skip
from agentrl.checks.report import Problem
from agentrl.checks.seeds import shown
from agentrl.elsewhere import said_of, step_all
from agentrl.errors import EnvironmentFault, blame
from agentrl.formats.hermes import parse
from agentrl.task import SPLITS
from agentrl.vector import vectorised


def again(bench: Bench) -> Iterator[Problem]:
    """Another process finds it by its text, and has the same tasks and episodes."""
    subject = bench.subject
    if not subject.address:
        raise Skip("no text leads to it: it is an instance, or stands in a function or a script")
    here = {split: [task.hash for task in picked] for split, picked in bench.picked.items()}
    there = _asked(bench)
    if there["problem"]:
        yield Problem(
            subject.line("__init__"),
            f"--env {subject.address} in another process: {there['problem']}",
            "Let importing and making it depend on nothing but its options.",
        )
        return
    if there["tasks"] != here:
        yield Problem(
            subject.line("task_source", "tasks"),
            "another process has other tasks at the same positions.",
            "Do not go through sets, hash(), listings of folders or time to make them.",
        )
        return
    found = _otherwise(_played(bench), there["said"])
    if found:
        script, position, how = found
        what = f"turn {position}" if position else "opening"
        yield Problem(
            _writer(bench, script, position),
            f"in another process the same task has another {what}: {how}",
            "Sort what comes from sets, listings of folders or hash() before a policy reads it.",
        )


def vector(bench: Bench) -> Iterator[Problem]:
    """Two copies play side by side as gymnasium's vector environment."""
    with blame(EnvironmentFault, "agentrl.make_vec"):
        step_all(vectorised([bench.subject.make] * 2))
    yield from ()


def _scripts(bench: Bench) -> list[list[str]]:
    """What is said in the first train task."""
    return [list(words) for words in bench.scripts(bench.picked["train"][0])]


def _played(bench: Bench) -> list[list[str]]:
    task = bench.picked["train"][0]
    return [said_of(bench.subject.make(), task, words, SEED) for words in _scripts(bench)]


def _otherwise(
    here: Sequence[Sequence[str]], there: Sequence[Sequence[str]]
) -> tuple[int, int, str] | None:
    """The first thing that differs: in which script and row, and how."""
    for script, (ours, theirs) in enumerate(zip(here, there, strict=True)):
        for position, (first, second) in enumerate(zip_longest(ours, theirs, fillvalue="")):
            if first != second:
                return script, position, shown(first, second)
    return None


def _writer(bench: Bench, script: int, position: int) -> str:
    """The line of what wrote a row: a tool, where its turn calls one."""
    if not position:
        return bench.subject.line("start", "tasks")
    calls = parse(_scripts(bench)[script][position - 1]).calls
    return bench.subject.line(*(call.name for call in calls), "reply", "reward", "start")


def _asked(bench: Bench) -> dict[str, Any]:
    """What the other process says."""
    subject = bench.subject
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "answer.json")
        order = {
            "file": str(file),
            "path": sys.path,
            "text": subject.address,
            "options": subject.options or {},
            "positions": {s: _positions(bench, s) for s in SPLITS},
            "seed": SEED,
            "scripts": _scripts(bench),
        }
        done = subprocess.run(
            [sys.executable, "-c", "from agentrl.elsewhere import answer; answer()"],
            input=json.dumps(order, default=str),
            capture_output=True,
            text=True,
            timeout=bench.seconds,
            # Another seed of hash(): what goes through a set comes in another order.
            env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
            check=False,
        )
        if not file.exists():
            said = done.stderr.strip().splitlines() or ["it ended without a word"]
            return {"problem": said[-1], "tasks": {}, "said": []}
        answered: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return answered


def _positions(bench: Bench, split: str) -> list[int]:
    size, count = len(bench.env.task_source(split)), len(bench.picked[split])
    return [i * size // count for i in range(count)]
