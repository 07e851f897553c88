"""A training run killed at many moments, each time resumed: does it end as the unbroken run?

    python -m tests.kill_storm --kills 50 --out storm
    python -m tests.kill_storm --kills 50 --kind pilot --out storm-pilot

Every run is a process of its own, forked from one that has loaded the libraries and has one
thread, and ended by SIGKILL: at a random moment, or inside the writing of a checkpoint (when
the folder that is written aside has appeared). A resumed run may be killed again. What is left
at the end is compared with the unbroken run bit for bit, except for times. Steps that were played
ahead are played again with newer weights, so of such a run the tasks and seeds are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from agentrl import checkpoint, disk
from agentrl.config import TrainConfig
from agentrl.record import RunFolder
from agentrl.training import train
from agentrl.weights import load_policy

ENVIRONMENT = '''
from agentrl import ListTasks, Task, ToolEnv, tool


class Lengths(ToolEnv):
    """Longer answers earn more: rewards differ even for a policy that knows nothing."""

    max_turns = 2
    success = 0.2

    @classmethod
    def tasks(cls, split):
        return ListTasks([Task(f"Say something about {i}.") for i in range(40)], split=split)

    @tool
    def look(self, at: str) -> str:
        """Look at a thing."""
        return "nothing"

    def reward(self, task, trajectory):
        return len(trajectory.answer) / 100
'''
STEPS = 4
KINDS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "pilot": {"pilot": 2, "skip_flat": 1, "audit": 0.5},
    "ahead": {"max_staleness": 1},
}
"""Settings of [train] that leave out episodes, or play ahead."""
INSIDE = 3
"""Of so many kills one comes while a checkpoint is written."""
AGAIN = 0.3
"""Chance that a resumed run is killed again."""
MOVING = ("time/", "update/peak")
"""Figures that no seed fixes."""


def config(out: Path, name: str, kind: str = "plain") -> TrainConfig:
    """Four short steps, a checkpoint after each."""
    train = {"steps": STEPS, "tasks_per_step": 1, "save_every": 1, "eval_every": 2}
    return TrainConfig.model_validate(
        {
            "env": {"name": f"{out / 'envs.py'}:Lengths"},
            "select": {"n": 4, "m": 2},
            "rollout": {"max_turn_tokens": 12},
            "train": train | KINDS[kind],
            "heldout": {"tasks": 2},
            "run": {"out": str(out), "name": name},
        }
    )


@dataclass
class Storm:
    """Runs under one folder, and what happened to them."""

    out: Path
    draw: random.Random
    kind: str = "plain"
    seconds: float = 0.0
    """That an unbroken run takes."""
    counts: Counter[str] = field(default_factory=Counter)
    """kills; inside: those that left a checkpoint half written; and what was not there yet."""
    wrong: list[str] = field(default_factory=list)

    def unbroken(self) -> dict[str, Any]:
        """What a run leaves that nothing happens to."""
        begun = time.monotonic()
        pid = self.launch("unbroken", resume=False)
        assert os.waitpid(pid, 0)[1] == 0, self.said("unbroken")
        self.seconds = time.monotonic() - begun
        return self.remains("unbroken")

    def broken(self, name: str, *, inside: bool) -> dict[str, Any]:
        """What a run leaves that is killed, perhaps more than once, and resumed each time."""
        run, resume, again = self.out / name, False, True
        while again:
            pid = self.launch(name, resume=resume)
            reached = self._inside(run, pid) if inside else self._some_time(pid)
            if reached and self._kill(run, pid):
                self.inspect(run)
                again = self.draw.random() < AGAIN
            elif not self._ended(run, pid):
                return {}
            inside, resume = False, (run / "run.json").exists()
            if resume and RunFolder(run).read_run()["status"] == "done":
                return self.remains(name)
        pid = self.launch(name, resume=resume)
        return self.remains(name) if self._ended(run, pid) else {}

    def launch(self, name: str, *, resume: bool) -> int:
        """A run in a process of its own."""
        return launch(config(self.out, name, self.kind), resume=resume)

    def remains(self, name: str) -> dict[str, Any]:
        """What of a run must be as in the unbroken one."""
        return (order if self.kind == "ahead" else remains)(self.out / name)

    def _some_time(self, pid: int) -> bool:
        """Wait for a random moment of the run; false if it has ended by then."""
        until = time.monotonic() + self.draw.uniform(0, self.seconds)
        return _wait(lambda: time.monotonic() >= until, pid)

    def _inside(self, run: Path, pid: int) -> bool:
        """Wait until a checkpoint of a random step is being written."""
        aside = run / "checkpoints" / f".{self.draw.randrange(STEPS + 1):06d}.{pid}"
        late = self.draw.uniform(0, 0.02)
        return _wait(aside.exists, pid) and not time.sleep(late)

    def _kill(self, run: Path, pid: int) -> bool:
        os.kill(pid, signal.SIGKILL)
        killed = os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        self.counts["kills"] += killed
        written = any((run / "checkpoints").glob(f".*.{pid}/"))
        self.counts["inside"] += killed and written
        return killed

    def _ended(self, run: Path, pid: int) -> bool:
        try:
            code = os.waitpid(pid, 0)[1]
        except ChildProcessError:  # it was seen to end
            return True
        if code:
            self.wrong.append(f"{run.name}: did not go on: {self.said(run.name)}")
        return not code

    def inspect(self, run: Path) -> None:
        """What must hold at any moment, whatever was going on."""
        root = run / "checkpoints"
        if not (run / "run.json").exists():
            self.counts["before run.json"] += 1
            return
        status = RunFolder(run).read_run()["status"]
        if status not in ("killed", "done"):
            self.wrong.append(f"{run.name}: it is dead and says {status}")
        if not checkpoint.any_saved(root):
            self.counts["before the first checkpoint"] += 1
        elif (root / "latest").exists():
            named = root / (root / "latest").read_text().strip()
            problem = checkpoint.fault(named)
            if problem and not (root / f".{named.name}.old").exists():
                self.wrong.append(f"{run.name}: latest names {named.name}: {problem}")

    def said(self, name: str) -> str:
        """The last words of a run's processes."""
        return (self.out / f"{name}.err").read_text()[-2000:]


def _wait(reached: Callable[[], bool], pid: int) -> bool:
    """Poll until something is so; false if the process ends before."""
    while not reached():
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return False
        time.sleep(0.0005)
    return True


def launch(settings: TrainConfig, *, resume: bool) -> int:
    """A run in a process of its own."""
    out, name = Path(settings.run.out), settings.run.name
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        error = os.open(out / f"{name}.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(error, 1)
        os.dup2(error, 2)
        # torch renews its pool of threads at the first use after a fork, which is not safe in two
        # threads at once, and models are loaded in several.
        torch.set_num_threads(1)
        train(settings, resume=name if resume else None)
        code = 0
    except BaseException as told:
        os.write(2, f"{type(told).__name__}: {told}\n".encode())
    finally:
        os._exit(code)


def remains(run: Path) -> dict[str, Any]:
    """All that a run leaves, but for times."""
    facts = RunFolder(run).read_run()
    found = checkpoint.newest(run / "checkpoints")
    rows = list(disk.rows(run / "metrics.jsonl"))
    standing = json.loads((found.path / "standing" / "standing.json").read_text())
    left: dict[str, Any] = {
        "run.json": {name: facts[name] for name in ("status", "heldout", "tokens", "seed")},
        "metrics": [{k: v for k, v in r.items() if not k.startswith(MOVING)} for r in rows],
        "standing": {k: v for k, v in standing.items() if k != "seconds"},
        "checkpoints": sorted(p.name for p in (run / "checkpoints").iterdir()),
        "step": found.step,
        "warning": found.warning,
    }
    for pattern in ("groups/*", "heldout/*"):
        left |= {str(p.relative_to(run)): p.read_bytes() for p in sorted(run.glob(pattern))}
    for pattern in ("policy/*.safetensors", "learner/*"):
        for path in sorted(found.path.glob(pattern)):
            left[str(path.relative_to(found.path))] = path.read_bytes()
    return left


def order(run: Path) -> dict[str, Any]:
    """What a run played in which order, and how it stands."""
    facts = RunFolder(run).read_run()
    found = checkpoint.newest(run / "checkpoints")
    groups = {
        path.name: [(row["task_id"], row["member"], row["seed"]) for row in disk.rows(path)]
        for path in sorted(run.glob("groups/*"))
    }
    return {
        **groups,
        "status": facts["status"],
        "before": facts["heldout"]["before"],
        "steps": [row["step"] for row in disk.rows(run / "metrics.jsonl")],
        "step": found.step,
        "warning": found.warning,
    }


def storm(out: Path, kills: int, seed: int, kind: str = "plain") -> dict[str, Any]:
    """Kill until enough processes have died; what was found."""
    out.mkdir(parents=True)
    (out / "envs.py").write_text(ENVIRONMENT)
    load_policy("tiny", device="cpu")  # what it imports, no run has to
    found = Storm(out, random.Random(seed), kind)
    whole, runs = found.unbroken(), 0
    rows = disk.rows(out / "unbroken" / "metrics.jsonl")
    assert any(row["update/grad_norm"] for row in rows)
    while found.counts["kills"] < kills and not found.wrong:
        name = f"run-{runs:03d}"
        found.wrong += differences(name, whole, found.broken(name, inside=runs % INSIDE == 0))
        runs += 1
    return {"runs": runs, **found.counts, "seconds": found.seconds, "wrong": found.wrong}


def differences(name: str, whole: Mapping[str, Any], left: Mapping[str, Any]) -> list[str]:
    """What a broken run left that the unbroken one did not, or otherwise."""
    if not left:
        return []
    names = sorted(whole.keys() | left.keys())
    return [f"{name}: {k} differs" for k in names if whole.get(k) != left.get(k)]


def main() -> int:
    """Print what was found; 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--kind", choices=KINDS, default="plain")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = storm(args.out, args.kills, args.seed, args.kind)
    sys.stdout.write(f"{json.dumps(found, indent=2)}\n")
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
