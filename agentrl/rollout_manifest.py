"""Manifest: what a file of trajectories was played with, beside it.

In    the settings of a `rollout`, the policy that played
Out   F.manifest.json beside F.jsonl: readers learn from it what the tokens mean
Not   the trajectories: those are lines as groups/*.jsonl of a run has them
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentrl import disk
from agentrl.dialect import Dialect
from agentrl.errors import UsageError
from agentrl.offline import RolloutConfig
from agentrl.version import __version__

SCHEMA = 1
NEEDED = ("schema", "dialect", "env", "rollout")


def manifest_of(file: Path) -> Path:
    """Where the manifest of a file is."""
    return file.with_name(f"{file.name.removesuffix('.jsonl')}.manifest.json")


def begun(
    config: RolloutConfig,
    dialect: Dialect,
    weights: Mapping[str, Any],
    engine: str,
    versions: Mapping[str, str],
    command: Sequence[str],
) -> dict[str, Any]:
    """The manifest before the first episode."""
    return {
        "schema": SCHEMA,
        "status": "running",
        "version": __version__,
        "versions": dict(versions),
        "command": shlex.join(command),
        "started": now(),
        "ended": None,
        "weights": dict(weights),
        "dialect": dialect.as_json(),
        "engine": engine,
        "env": config.env.model_dump(),
        "rollout": config.rollout.model_dump(),
        "collect": config.collect.model_dump(),
        "groups": 0,
        "episodes": 0,
    }


def write(file: Path, facts: Mapping[str, Any]) -> None:
    """Put the manifest beside its file."""
    text = json.dumps(disk.plain(facts), indent=2, ensure_ascii=False) + "\n"
    disk.replace(manifest_of(file), text)


def read(file: Path) -> dict[str, Any]:
    """The manifest of a file.

    Raises:
        UsageError: it has none, or another kind of one.
    """
    path = manifest_of(file)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"--data {file}: no {path.name} beside it, so nobody knows what its tokens mean. "
            "Put it there, or write both anew with `agentrl rollout`."
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({error}). Write it anew.") from error
    if not isinstance(found, dict) or any(name not in found for name in NEEDED):
        raise UsageError(f"{path}: it is no manifest of `agentrl rollout`. Write it anew.")
    if found["schema"] != SCHEMA:
        raise UsageError(
            f"{path}: its schema is {found['schema']!r}, this version reads {SCHEMA}. "
            "Write the file anew."
        )
    return found


def now() -> str:
    """The time, for people."""
    return datetime.now(UTC).isoformat(timespec="seconds")
