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
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from agentrl import disk
from agentrl.errors import RunError, UsageError, blame
from agentrl.message import ToolOutcome
from agentrl.task import LABELS
from agentrl.trajectory import Trajectory, tool_calls

SCHEMA = 1
RUN, CONFIG, ORIGIN = "run.json", "config.toml", "origin.json"
KILLED = "killed"
"""Status of a run that says running, and that no process holds."""


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

    @property
    def logs(self) -> Path:
        """One file an attempt: a start, or a resumption."""
        return self.path / "logs"

    def steps(self) -> int:
        """Steps that were done and recorded."""
        if not self.metrics.exists():
            return 0
        return max((int(row["step"]) for row in disk.rows(self.metrics)), default=0)

    def write_run(self, facts: Mapping[str, Any]) -> None:
        """Replace run.json."""
        text = json.dumps(disk.plain({"schema": SCHEMA, **facts}), indent=2, ensure_ascii=False)
        with _writing(self.path / RUN):
            disk.replace(self.path / RUN, text + "\n")

    def read_run(self) -> dict[str, Any]:
        """What run.json says; of a run whose process is gone the status is killed.

        Raises:
            UsageError: it cannot be read.
        """
        path = self.path / RUN
        try:
            facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            running = facts["status"] == "running"
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{path}: cannot be read ({type(error).__name__}). It is a JSON object with the "
                "run's status. Take it from a copy of the run."
            ) from error
        return {**facts, "status": KILLED} if running and not disk.is_held(self.path) else facts

    def write_config(self, toml: str, origin: Mapping[str, str]) -> None:
        """Write the resolved settings and where each came from."""
        with _writing(self.path / CONFIG):
            disk.replace(self.path / CONFIG, toml)
            disk.replace(self.path / ORIGIN, json.dumps(dict(origin), indent=2) + "\n")

    def write_metrics(self, row: Mapping[str, Any]) -> None:
        """Append a step's row."""
        with _writing(self.metrics):
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
        path = self.path / kind / f"{step:06d}.jsonl"
        text = episode_lines(trajectories, marks, tokens=tokens)
        with _writing(path):
            path.parent.mkdir(exist_ok=True)
            disk.replace(path, text)

    def forget_after(self, step: int) -> None:
        """Take back what was written after a step, so that a resumed run writes it anew."""
        with _writing(self.path):
            for folder in (self.path, self.path / "groups", self.path / "heldout"):
                disk.sweep(folder)
            if self.metrics.exists():
                kept = [row for row in disk.rows(self.metrics) if row["step"] <= step]
                disk.replace(self.metrics, "".join(disk.line(row) for row in kept))
            for path in [*self.path.glob("groups/*.jsonl"), *self.path.glob("heldout/*.jsonl")]:
                if path.stem.isdecimal() and int(path.stem) > step:
                    path.unlink()


def _writing(path: Path) -> AbstractContextManager[None]:
    """Where the disk is full, or gone, a run ends in one line that says so."""
    return blame(RunError, f"{path}: cannot be written. Mend this, then go on with --resume")


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
        "outcomes": [[_outcome(o) for o in turn.outcomes] for turn in t.turns],
    }
    meta = t.task.meta or {}
    row |= {name: meta[key] for name, key in LABELS.items() if key in meta}
    if t.metrics:
        row["metrics"] = t.metrics
    if t.problem:
        row["problem"] = t.problem
    if tokens:
        row |= {"input_ids": t.input_ids, "loss_mask": t.loss_mask, "logprobs": t.logprobs}
        if len(t.branches) > 1:
            row["branches"] = [len(branch.input_ids) for branch in t.branches]
    return row


def _outcome(outcome: ToolOutcome) -> dict[str, Any]:
    """What became of a call; not its seconds, since runs that repeat write the same lines."""
    found: dict[str, Any] = {"status": outcome.status}
    return found | ({"reward": outcome.reward} if outcome.reward else {})


AGAIN = "Add --resume to go on with it, or give another --name."


def check_free(out: str, name: str, cure: str = AGAIN) -> None:
    """Refuse, before any work, a folder that holds a run or cannot be written.

    Args:
        out: Where runs are.
        name: Of the run; empty where it is numbered.
        cure: What to do where there is one.

    Raises:
        UsageError: with what to do instead.
    """
    root = Path(out)
    if name and (name in (".", "..") or Path(name).name != name):
        raise UsageError(f"--name {name}: a name is one folder, not a path. Put the rest in --out.")
    if name and (root / name / RUN).exists():
        raise UsageError(f"{root / name}: it holds a run. It would be overwritten. {cure}")
    there = next((p for p in (root, *root.absolute().parents) if p.exists()), root)
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UsageError(f"--out {out}: cannot be written at {there}. Give a folder that can.")


def hold(folder: RunFolder) -> TextIO:
    """Keep a run for this process until the returned file is closed.

    Raises:
        UsageError: another process is writing it.
    """
    try:
        held = disk.hold(folder.path)
    except OSError as error:
        raise UsageError(
            f"{folder.path}: cannot be written ({error.strerror}). A run writes into its folder. "
            "Make that possible, or copy the folder elsewhere."
        ) from error
    if held is None:
        raise UsageError(
            f"{folder.path}: another process is writing this run ({disk.holder(folder.path)}). "
            "Two would spoil it. Wait for it, or give another --name."
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
    candidates = [Path(run), Path(out) / run] if run else by_age(Path(out))
    for path in candidates:
        if (path / RUN).is_file():
            return RunFolder(path)
    what = f"{run}: no such run" if run else f"{out}: no run there"
    raise UsageError(f"{what}. A run is a folder with run.json. Give its path, or --out.")


def parted(text: str) -> tuple[str, str]:
    """RUN and STEP of `RUN` or `RUN@STEP`; a folder's own name may have an @ in it."""
    if "@" not in text or (Path(text) / RUN).is_file():
        return text, ""
    run, _, step = text.rpartition("@")
    return run, step


def by_age(root: Path) -> list[Path]:
    """Folders of runs, the last one written first."""
    runs = sorted(root.glob(f"*/{RUN}"), key=lambda p: p.stat().st_mtime, reverse=True)
    return [path.parent for path in runs]


def _free(root: Path, prefix: str) -> Path:
    """Making the folder is what takes the number: of two processes one gets it."""
    for number in itertools.count(1):
        path = root / f"{prefix}-{number:03d}"
        with suppress(FileExistsError):
            path.mkdir()
            return path
    raise AssertionError("numbers do not end")
