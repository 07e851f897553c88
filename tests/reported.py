"""Small runs to report of: really played by a script, with rows as the loop makes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentrl import disk, header
from agentrl.chosen import choose
from agentrl.figures import UpdateReport
from agentrl.metrics import step_row
from agentrl.record import RunFolder
from agentrl.report.episodes import Played, Seen
from agentrl.report.facts import Facts
from agentrl.tomlfile import dump_toml
from tests.viewed import CAP, config_of, plainly, played, tasks_of

UPDATE = {
    **{"loss": 0.1, "grad_norm": 0.5, "tokens": 400, "tokens_padded": 400, "trained_tokens": 90},
    **{"micro_batches": 1, "k3": 1e-6, "max_gap": 1e-3, "clip_fraction": 0.0, "capped": 0.0},
    **{"masked": 0, "entropy": 0.7, "peak_bytes": 90 << 20, "skipped": False, "oom_retries": 0},
    **{"cap": CAP, "widest": 400},
}
SECONDS = {"rollout": 2.0, "select": 0.1, "update": 1.0, "sync": 0.2, "step": 3.5}


def write_run(
    path: Path,
    *,
    steps: int = 3,
    heldout: Mapping[int, Sequence[float]] | None = None,
    script: Any = plainly,
    status: str = "done",
    **facts: Any,
) -> Path:
    """A run of a few steps, as far as it came.

    Args:
        path: Its folder.
        steps: Steps that were done.
        heldout: Step to what each held-out task then earned; those of 1 are correct.
        script: What the policy says in training.
        status: How it ended.
        facts: More of run.json.
    """
    config = config_of(n=8).model_copy(update={})
    run = RunFolder(path)
    path.mkdir(parents=True)
    seconds = {"total": 12.0, **{name: steps * value for name, value in SECONDS.items()}}
    base = {"status": status, "env": "cellar", "model": "scripted", "n": 8, "m": 4, "seed": 0}
    command = f"agentrl train --env cellar --name {path.name}"
    run.write_run({**base, "command": command, "seconds": seconds, **facts})
    run.write_config(dump_toml(config), {"select.n": "--n", "train.steps": "default"})
    for step in range(1, steps + 1):
        groups = played(tasks_of(3), 8, script, step)
        chosen = choose(groups, config.select.question(CAP), stats="subset", loss="grpo", seed=step)
        update = UpdateReport(**UPDATE) if chosen.kept else None
        row = step_row(
            step=step,
            version=step,
            chosen=chosen,
            update=update,
            seconds=SECONDS,
            cap=CAP,
            predicted=100 << 20,
        )
        run.write_metrics(row)
        run.write_episodes("groups", step, chosen.trajectories, chosen.marks)
    for step, worth in (heldout or {}).items():
        write_heldout(path / "heldout" / f"{step:06d}.jsonl", worth)
    return path


def line(task: str, reward: float | None, **more: Any) -> dict[str, Any]:
    """A recorded episode, no longer than it must be."""
    status = "error" if reward is None else "ok"
    return {
        **{"task_id": task, "member": 0, "reward": reward, "status": status, "turns": 1},
        **{"correct": None if reward is None else reward >= 1, "tool_calls": 0, "stop": "answer"},
        **{"trained_tokens": 5, "tokens": 9, "messages": [{"role": "user", "content": task}]},
        **more,
    }


def write_heldout(path: Path, worth: Sequence[float]) -> None:
    """One episode a task."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [line(f"t{i}", reward) for i, reward in enumerate(worth)]
    path.write_text("".join(disk.line(row) for row in rows))


def write_evaluation(path: Path, rows: Sequence[Mapping[str, Any]], **more: Any) -> Path:
    """A folder of `agentrl eval --out`, not finished unless it says so."""
    path.mkdir(parents=True)
    facts = {"schema": header.SCHEMA, "env": "cellar", "k": 1, "tasks": len(rows)} | more
    (path / header.NAME).write_text(json.dumps(facts))
    (path / header.SETTINGS).write_text("")
    (path / header.EPISODES).write_text("".join(disk.line(row) for row in rows))
    return path


def facts_with(rows: Sequence[Mapping[str, Any]], **settings: Any) -> Facts:
    """Facts of a run of which only the rows matter."""
    numbered = tuple({"step": i, **row} for i, row in enumerate(rows, 1))
    known = {"update.grad_norm": 1.0, "train.tasks_per_step": 4} | settings
    return Facts("run", Path("run"), "train", {}, known, {}, numbered, (), (), (), ())


def seen(task: str, reward: float | None, start: int = 0) -> Seen:
    """An episode whose words are nowhere."""
    return Seen(Path("none"), start, task, reward, 5, 1)


def scored(worth: Mapping[str, float], step: int = 0) -> Played:
    """An evaluation of one attempt a task."""
    found = Played(step)
    found.scores = {task: {0: (float(r >= 1), r)} for task, r in worth.items()}
    found.stops["answer"] = len(worth)
    return found
