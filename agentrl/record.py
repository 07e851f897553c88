"""A run on disk: run.json, config.toml, metrics, groups, held-out episodes.

In    records of the training loop
Out   files that other programs read (names and fields are relied on; see docs/files.md)
Not   weights (checkpoint.py), nor reading a run back for people
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from agentrl import disk
from agentrl.errors import UsageError
from agentrl.task import LABELS
from agentrl.trajectory import Trajectory, tool_calls

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Mark:
    """What the update made of one trajectory."""

    kept: bool = False
    advantage: float | None = None
    weight: float = 0.0


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        """Folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """One row a step."""
        return self.path / "metrics.jsonl"

    def write_run(self, facts: Mapping[str, Any]) -> None:
        """Replace run.json."""
        text = json.dumps(disk.plain({"schema": SCHEMA, **facts}), indent=2, ensure_ascii=False)
        disk.replace(self.path / "run.json", text + "\n")

    def read_run(self) -> dict[str, Any]:
        """What run.json says."""
        facts: dict[str, Any] = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        return facts

    def write_config(self, toml: str, origin: Mapping[str, str]) -> None:
        """Write the resolved settings and where each came from."""
        disk.replace(self.path / "config.toml", toml)
        disk.replace(self.path / "origin.json", json.dumps(dict(origin), indent=2) + "\n")

    def write_metrics(self, row: Mapping[str, Any]) -> None:
        """Append a step's row."""
        disk.append(self.metrics, [row])

    def write_episodes(
        self,
        kind: str,
        step: int,
        trajectories: Sequence[Trajectory],
        marks: Sequence[Mark] | None = None,
        *,
        tokens: bool = False,
    ) -> None:
        """Write every trajectory of a step under groups/ or heldout/, one a line."""
        folder = self.path / kind
        folder.mkdir(exist_ok=True)
        text = episode_lines(trajectories, marks, tokens=tokens)
        disk.replace(folder / f"{step:06d}.jsonl", text)

    def forget_after(self, step: int) -> None:
        """Take back what was written after a step, so that a resumed run writes it anew."""
        if self.metrics.exists():
            kept = [row for row in disk.rows(self.metrics) if row["step"] <= step]
            disk.replace(self.metrics, "".join(disk.line(row) for row in kept))
        for path in [*self.path.glob("groups/*.jsonl"), *self.path.glob("heldout/*.jsonl")]:
            if int(path.stem) > step:
                path.unlink()


def episode_lines(
    trajectories: Sequence[Trajectory],
    marks: Sequence[Mark] | None = None,
    *,
    tokens: bool = False,
) -> str:
    """Trajectories as groups/*.jsonl has them, one a line."""
    found = marks or [Mark()] * len(trajectories)
    pairs = zip(trajectories, found, strict=True)
    return "".join(disk.line(episode_row(t, mark, tokens=tokens)) for t, mark in pairs)


def episode_row(trajectory: Trajectory, mark: Mark, *, tokens: bool) -> dict[str, Any]:
    """One trajectory as groups/*.jsonl has it."""
    t = trajectory
    row: dict[str, Any] = {
        "task_id": t.task.id,
        "member": t.member,
        "seed": t.seed,
        "reward": t.reward,
        "reward_parts": None if t.reward_parts is None else dict(t.reward_parts),
        "correct": t.correct,
        "kept": mark.kept,
        "advantage": mark.advantage,
        "weight": mark.weight,
        "tokens": t.num_tokens,
        "trained_tokens": t.num_trained_tokens,
        "turns": len(t.turns),
        "tool_calls": tool_calls(t.turns),
        "stop": t.stop.value,
        "status": t.stop.status,
        "version": t.version,
        "messages": t.messages,
    }
    meta = t.task.meta or {}
    row |= {name: meta[key] for name, key in LABELS.items() if key in meta}
    if t.metrics:
        row["metrics"] = t.metrics
    if t.problem:
        row["problem"] = t.problem
    if tokens:
        row |= {"input_ids": t.input_ids, "loss_mask": t.loss_mask, "logprobs": t.logprobs}
    return row


def check_free(out: str, name: str) -> None:
    """Refuse, before any work, a folder that holds a run or cannot be written.

    Raises:
        UsageError: with what to do instead.
    """
    root = Path(out)
    if name and (name in (".", "..") or Path(name).name != name):
        raise UsageError(f"--name {name}: a name is one folder, not a path. Put the rest in --out.")
    if name and (root / name / "run.json").exists():
        raise UsageError(
            f"{root / name}: it holds a run. It would be overwritten. "
            "Add --resume to go on with it, or give another --name."
        )
    there = next((p for p in (root, *root.absolute().parents) if p.exists()), root)
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UsageError(f"--out {out}: cannot be written at {there}. Give a folder that can.")


def hold(folder: RunFolder) -> TextIO:
    """Keep a run for this process until the returned file is closed.

    Raises:
        UsageError: another process is writing it.
    """
    held = disk.hold(folder.path)
    if held is None:
        raise UsageError(
            f"{folder.path}: another process is writing this run. Two would spoil it. "
            "Wait for it, or give another --name."
        )
    return held


def create(out: str, name: str, prefix: str) -> RunFolder:
    """Make a new run's folder; with no name, the first free `prefix-NNN`.

    Raises:
        UsageError: the folder holds a run already, or cannot be written.
    """
    root = Path(out)
    try:
        root.mkdir(parents=True, exist_ok=True)
        path = root / name if name else _free(root, prefix)
        check_free(out, name)
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".write.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(
            f"--out {out}: cannot be written ({error.strerror}). Give a folder that can."
        ) from error
    return RunFolder(path)


def locate(run: str, out: str = "runs") -> RunFolder:
    """The folder of a run named by path, or by name under `out`; empty: the newest one."""
    candidates = [Path(run), Path(out) / run] if run else _by_age(Path(out))
    for path in candidates:
        if (path / "run.json").is_file():
            return RunFolder(path)
    what = f"{run}: no such run" if run else f"{out}: no run there"
    raise UsageError(f"{what}. A run is a folder with run.json. Give its path, or --out.")


def _by_age(root: Path) -> list[Path]:
    runs = sorted(root.glob("*/run.json"), key=lambda p: p.stat().st_mtime, reverse=True)
    return [path.parent for path in runs]


def _free(root: Path, prefix: str) -> Path:
    """Making the folder is what takes the number: of two processes one gets it."""
    for number in itertools.count(1):
        path = root / f"{prefix}-{number:03d}"
        with suppress(FileExistsError):
            path.mkdir()
            return path
    raise AssertionError("numbers do not end")
