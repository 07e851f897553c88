"""A run's folder → the events that it told, up to the middle of a step.

In    a folder that `agentrl train` wrote, a step, how much of its play is over
Out   events with their seconds; of single episodes only those of that step
Not   what a folder does not keep: when an episode ended within its step is spread evenly
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentrl import disk
from agentrl.events import Episode, Event, Measured, Phased, Picked, Played, Started, Stepped
from agentrl.interval import share
from agentrl.memory.size import parse_size
from docs.shots.recording import Timed


def events_of(folder: Path, step: int, part: float) -> list[Timed]:
    """The events of a run until a part of a step's episodes has ended."""
    facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    settings = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    steps, now = settings["train"]["steps"], 0.0
    found: list[Timed] = [(now, _started(folder, facts, settings)), *_measured(folder, 0, now)]
    for row in disk.rows(folder / "metrics.jsonl"):
        if row["step"] == step:
            break
        found.append((now, _picked(row, settings["train"]["tasks_per_step"])))
        now += row["time/step"]
        left = now / row["step"] * (steps - row["step"])
        found += _measured(folder, row["step"], now)
        found.append((now, Stepped(row, steps, now, left)))
    return found + list(_playing(folder, step, part, now))


def _started(folder: Path, facts: Mapping[str, Any], settings: Mapping[str, Any]) -> Event:
    memory = settings["update"].get("memory")
    return Started(
        path=Path("runs") / folder.name,
        env=facts["env"],
        model=facts["model"],
        engine=facts["engine"],
        n=facts["n"],
        m=facts["m"],
        steps=settings["train"]["steps"],
        tasks_per_step=settings["train"]["tasks_per_step"],
        first_step=1,
        rule=settings["select"]["rule"],
        memory=parse_size(memory) if memory else None,
    )


def _measured(folder: Path, step: int, now: float) -> Iterator[Timed]:
    path = folder / "heldout" / f"{step:06d}.jsonl"
    if path.is_file():
        tasks: dict[str, list[float]] = {}
        for row in disk.rows(path):
            tasks.setdefault(row["task_id"], []).append(float(bool(row["correct"])))
        yield now, Measured(step, share(list(tasks.values())), len(tasks), 0.0)


def _picked(row: Mapping[str, Any], groups: int) -> Event:
    return Picked(
        step=row["step"],
        kept=row["select/kept"],
        of=row["select/of"],
        groups=groups,
        flat=row["select/flat"],
        spread_all=row["select/spread_all"],
        spread_kept=row["select/spread_kept"],
        tokens=row["select/tokens_kept"],
    )


def _playing(folder: Path, step: int, part: float, now: float) -> Iterator[Timed]:
    episodes = list(disk.rows(folder / "groups" / f"{step:06d}.jsonl"))
    row = next(r for r in disk.rows(folder / "metrics.jsonl") if r["step"] == step)
    pause = row["time/rollout"] / len(episodes)
    yield now, Phased("rollout", going=True)
    for done, one in enumerate(episodes[: round(part * len(episodes))], 1):
        yield now + pause * done, Played("rollout", done, len(episodes), _episode(one), step)


def _episode(row: Mapping[str, Any]) -> Episode:
    failed = sum(one["status"] != "ok" for turn in row.get("outcomes", ()) for one in turn)
    return Episode(row["turns"], row["tool_calls"], failed, row["trained_tokens"], row["correct"])
