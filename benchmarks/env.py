"""Host time of environments: episodes a second and milliseconds a turn, beside GEM and verifiers.

In    built-in environments, and reference solutions as what the policy says
Out   a table; last, one line of JSON
Not   an engine, nor tokens: what an episode costs beside the model

Arms take turns in rounds, each playing for about the same time, and the median round counts. A
peer is the nearest environment of its package: the same kind of problem and of answer, with as
many turns as it takes there. Peers run in the environment that `make adapters` builds, in a
process of their own; where that is missing, so are they.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tables import machine, show

from agentrl import registry
from agentrl.env import ToolEnv
from agentrl.errors import UsageError
from agentrl.task import Task

ROOT = Path(__file__).parents[1]
PEERS = {
    "tool_math": ("gem_math", "verifiers_math"),
    "code_math": ("gem_code",),
    "gsm": ("gem_gsm", "gem_gsm_ready"),
    "reasoning_gym/gsm_symbolic": ("gem_gsm", "gem_gsm_ready"),
}
"""Arms of env_peers.py beside which an environment stands."""
ADAPTED = ("reasoning_gym/gsm_symbolic",)
"""The same problems as that arm's, by our adapter: one turn without tools."""
SAMPLE = 200
"""Tasks that are played, over and over."""


@dataclass(frozen=True, slots=True)
class Round:
    """What an arm did in its time."""

    episodes: int
    turns: int
    seconds: float
    cpu: float
    """Seconds of all processors, with those of processes that ended."""


class Ours:
    """A built-in environment, replaying references."""

    def __init__(self, name: str) -> None:
        """Make one instance and look at its tasks once."""
        self.env = registry.make(name)
        source = self.env.task_source("test")
        step = max(1, len(source) // SAMPLE)
        tasks = [source[i] for i in range(0, len(source), step)][:SAMPLE]
        self.tasks = [task for task in tasks if task.reference]
        self.next = 0

    def play(self, seconds: float) -> Round:
        """Episodes one after the other."""
        return asyncio.run(self._play(seconds))

    async def _play(self, seconds: float) -> Round:
        begun, cpu, episodes, turns = time.perf_counter(), _cpu(), 0, 0
        while time.perf_counter() - begun < seconds:
            turns += await _episode(self.env, self.tasks[self.next % len(self.tasks)])
            self.next += 1
            episodes += 1
        return Round(episodes, turns, time.perf_counter() - begun, _cpu() - cpu)


class Peer:
    """An arm of env_peers.py: it is asked in lines of JSON, and answers in such."""

    def __init__(self, python: Path, arm: str) -> None:
        """Start its process, and wait until it has loaded what it needs."""
        script = [str(python), str(Path(__file__).with_name("env_peers.py")), arm]
        self._process = subprocess.Popen(
            script,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.why = str(self._heard().get("absent", ""))

    def play(self, seconds: float) -> Round:
        """Episodes one after the other, there."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return Round(**self._heard())

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def _heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line.startswith("{") else {"absent": "it ended"}


async def _episode(env: ToolEnv, task: Task) -> int:
    """Replay a reference; RuntimeError where it does not earn the top."""
    await env.areset(seed=0, options={"task": task})
    for words in task.reference or ():
        if env.end is None:
            await env.astep(words)
    turns, end = len(env.turns), env.end
    await env.arelease()
    if end is None or not end.correct:
        raise RuntimeError(f"the reference of {task.id} ended with {end}")
    return turns


def _cpu() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def measured(arms: Sequence[Ours | Peer], rounds: int, seconds: float) -> list[Round]:
    """The median round of each arm, by time of a turn; the first round warms up."""
    played: list[list[Round]] = [[] for _ in arms]
    for number in range(rounds + 1):
        for arm, found in zip(arms, played, strict=True):
            result = arm.play(seconds / 4 if number == 0 else seconds)
            if number:
                found.append(result)
    return [sorted(found, key=lambda r: r.seconds / r.turns)[len(found) // 2] for found in played]


@contextmanager
def peers_of(name: str, python: Path | None) -> Iterator[dict[str, Peer]]:
    """The peers of a built-in that can be started."""
    names = PEERS.get(name, ()) if python is not None else ()
    started = {arm: Peer(python, arm) for arm in names if python is not None}
    try:
        yield started
    finally:
        for peer in started.values():
            peer.close()


def row(name: str, what: str, result: Round, ours: Round | None) -> dict[str, Any]:
    """A line of the table."""
    turn, theirs = result.seconds / result.turns, ours and ours.seconds / ours.turns
    return {
        "environment": name,
        "played by": what,
        "episodes/s": result.episodes / result.seconds,
        "turns": result.turns / result.episodes,
        "ms/turn": 1e3 * turn,
        "cpu ms/turn": 1e3 * result.cpu / result.turns,
        "ours faster by": turn / theirs if theirs else None,
    }


def table(names: Sequence[str], python: Path | None, rounds: int, seconds: float) -> list[Any]:
    """All lines."""
    lines = []
    for name in names:
        try:
            ours = Ours(name)
        except UsageError as error:
            print(f"{name}: left out. {error}")
            continue
        with peers_of(name, python) as peers:
            there = {arm: peer for arm, peer in peers.items() if not peer.why}
            first, *others = measured([ours, *there.values()], rounds, seconds)
        lines.append(row(name, "agentrl", first, None))
        lines += [row(name, a, r, first) for a, r in zip(there, others, strict=True)]
        for arm, peer in peers.items():
            if peer.why:
                print(f"{name}: {arm} is absent. {peer.why}")
        ours.env.close()
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = [*registry.names(), *ADAPTED]
    parser.add_argument("--env", nargs="*", default=known, help="environments")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of an arm in a round")
    parser.add_argument("--peers", type=Path, default=ROOT / ".venv-adapters/bin/python")
    given = parser.parse_args()
    python = given.peers if given.peers.exists() else None
    if python is None:
        print(f"No {given.peers}: peers are absent. `make adapters` builds it.")
    lines = table(given.env, python, given.rounds, given.seconds)
    show("Replayed references, one episode after the other", lines)
    ratios = [line["ours faster by"] for line in lines if line["ours faster by"]]
    where = machine()
    print(f"\n{where['processor']}, {where['cores']} cores, load {where['load']}, {where['date']}")
    if ratios:
        print(f"Beside peers: {min(ratios):.3g} to {max(ratios):.3g} times as fast a turn.")
    print(json.dumps({"rows": lines, "least": min(ratios, default=None), "machine": where}))


if __name__ == "__main__":
    main()
