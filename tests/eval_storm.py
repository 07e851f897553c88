"""An evaluation killed at many moments, each time taken up: does it end in the same summary?

    python -m tests.eval_storm --kills 50 --out storm

A suite of two environments is played through a chat server. Each try is a process of its own,
ended by SIGKILL at a random moment, before the first file is there as well as after the last.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentrl.cli import main as command
from tests.chat_server import said, serving

ENVIRONMENT = '''
from agentrl import ListTasks, Task, ToolEnv, tool


class Sums(ToolEnv):
    """Add two numbers."""

    max_turns = 3

    def __init__(self, most: int = 9):
        self.most = most

    def task_source(self, split):
        pairs = [(a, b) for a in range(5, self.most) for b in range(5)]
        return ListTasks([Task(f"{a}+{b}?", str(a + b)) for a, b in pairs])

    @tool
    def add(self, a: int, b: int) -> str:
        """Add.

        Args:
            a: One.
            b: Other.
        """
        return str(a + b)

    def reward(self, task, trajectory):
        return float(trajectory.answer == task.answer)
'''
SUITE = """
[eval]
tasks = 12
k = 2

[[suite]]
env.name = "{env}"
name = "small"

[[suite]]
env.name = "{env}"
env.options = {{most = 14}}
eval.tasks = 20
name = "large"
"""
TOGETHER = 4
"""Kills of one evaluation; then it is left alone."""
FILES = ("summary.json", "small/summary.json", "large/summary.json")


def carries_nothing(body: dict[str, Any]) -> Any:
    """A policy that calls the tool, but forgets the tens: some are right, others are not."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return said(last["content"][-1])
    a, b = last["content"].rstrip("?").split("+")
    return said("", [("add", json.dumps({"a": int(a), "b": int(b)}))])


def child(work: Callable[[], object]) -> int:
    """A process that does this and ends."""
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(1)
    return pid


def serve(place: Path) -> None:
    """The server, which writes where it is."""
    with serving(carries_nothing) as asked:
        place.with_suffix(".new").write_text(asked.url)
        place.with_suffix(".new").rename(place)
        mother = os.getppid()
        while os.getppid() == mother:
            time.sleep(0.1)


def attempt(suite: Path, url: str, out: Path) -> int:
    """One try, which goes on with what there is."""
    base = ["eval", "--base-url", url, "--model", "m", "--suite", str(suite), "--json"]
    begun = (out / "suite.json").exists()
    words = ["eval", "--resume", str(out), "--json"] if begun else [*base, "--out", str(out)]

    def work() -> None:
        with out.with_suffix(".said").open("a") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os._exit(command(words))

    return child(work)


def remains(out: Path) -> dict[str, Any]:
    """What is compared: summaries to the byte, and lines in any order."""
    lines = {
        name: sorted((out / name / "episodes.jsonl").read_text().splitlines())
        for name in ("small", "large")
    }
    return {**lines, **{name: (out / name).read_bytes() for name in FILES}}


def storm(out: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill until enough have died; what was found."""
    importlib.import_module("agentrl.suite")  # so that no try has to
    out.mkdir(parents=True)
    (out / "envs.py").write_text(ENVIRONMENT)
    suite, place = out / "suite.toml", out / "url"
    suite.write_text(SUITE.format(env=f"{out / 'envs.py'}:Sums"))
    server = child(lambda: serve(place))
    try:
        while not place.exists():
            time.sleep(0.01)
        return _storm(suite, place.read_text(), kills, random.Random(seed))
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)


def _storm(suite: Path, url: str, kills: int, draw: random.Random) -> dict[str, Any]:
    out, begun = suite.parent, time.monotonic()
    assert os.waitpid(attempt(suite, url, out / "unbroken"), 0)[1] == 0, _said(out / "unbroken")
    seconds, whole = time.monotonic() - begun, remains(out / "unbroken")
    killed, early, runs, wrong = 0, 0, 0, list[str]()
    while killed < kills and not wrong:
        run, left = out / f"run-{runs:03d}", TOGETHER
        while (code := _try(suite, url, run, draw.uniform(0, seconds) if left else None)) < 0:
            killed, left = killed + 1, left - 1
            early += not (run / "suite.json").exists()
        if code:
            wrong.append(f"{run.name}: did not go on: {_said(run)}")
        else:
            found = remains(run)
            wrong += [f"{run.name}: {name} differs" for name in whole if found[name] != whole[name]]
        runs += 1
    return {
        "runs": runs,
        "kills": killed,
        "before the first file": early,
        "seconds": seconds,
        "wrong": wrong,
    }


def _try(suite: Path, url: str, run: Path, until: float | None) -> int:
    """The exit code of a try; below zero where it was killed."""
    pid = attempt(suite, url, run)
    if until is not None:
        time.sleep(until)
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _said(run: Path) -> str:
    return run.with_suffix(".said").read_text()[-1000:]


def main() -> int:
    """Print what was found; 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    found = storm(args.out, args.kills, args.seed)
    sys.stdout.write(f"{json.dumps(found, indent=2)}\n")
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
