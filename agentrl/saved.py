"""`RUN` or `RUN@STEP` → where its policy lies.

In    what `--run` was given
Out   the checkpoint's folder of weights, with its step and version
Not   a run's settings: the commands read those themselves
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from agentrl import checkpoint, record
from agentrl.errors import UsageError


@dataclass(frozen=True, slots=True)
class Saved:
    """A policy that a run saved."""

    folder: Path
    step: int
    version: int | None
    """Updates that its weights have seen; None where the run does not say."""


def saved(run: str) -> Saved:
    """The newest whole checkpoint of a run, or that of a step.

    Raises:
        UsageError: there is no such run or checkpoint.
    """
    name, step = record.parted(run)
    if step and not step.isdigit():
        raise UsageError(f"--run {run}: {step!r} is no step. Write RUN or RUN@STEP.")
    folder = record.locate(name)
    found = checkpoint.find(folder.checkpoints, int(step) if step else None)
    standing = found / "standing" / "standing.json"
    version = json.loads(standing.read_text())["version"] if standing.is_file() else None
    return Saved(found / checkpoint.POLICY, int(found.name), version)
