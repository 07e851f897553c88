"""Parts of a run ⇄ checkpoints/NNNNNN, atomically.

In    a step and named parts, each of which can save itself into a folder
Out   a folder that appears whole or not at all, with a manifest of sizes and sha256
Not   what a part holds: whoever adds a part says how it is saved and loaded
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from agentrl import disk
from agentrl.errors import RunError, UsageError

MANIFEST = "manifest.json"
LATEST = "latest"
POLICY = "policy"
"""Part that is a Hugging Face folder: any program can load it."""


class Part(Protocol):
    """Something that a run needs to go on."""

    def save(self, folder: Path) -> None:
        """Write itself into an empty folder."""
        ...

    def load(self, folder: Path) -> None:
        """Become what was saved there."""
        ...


def name_of(step: int) -> str:
    """Folder name of a step."""
    return f"{step:06d}"


def save(root: Path, step: int, parts: Mapping[str, Part], *, keep: int) -> Path:
    """Write all parts of a step, then let the newest `keep` checkpoints stay.

    The folder is written aside, synced, and renamed; `latest` is replaced last, so at
    every moment it names a whole checkpoint.
    """
    root.mkdir(parents=True, exist_ok=True)
    aside, final = root / f".{name_of(step)}.{os.getpid()}", root / name_of(step)
    _sweep(root)
    for name, part in parts.items():
        folder = aside / name
        folder.mkdir(parents=True)
        part.save(folder)
    for path in _files(aside):
        disk.sync_file(path)
    disk.replace(aside / MANIFEST, json.dumps({"step": step, "files": _hashes(aside)}, indent=1))
    if final.exists():
        final.rename(root / f".{final.name}.old")
    aside.rename(final)
    disk.sync_folder(root)
    disk.replace(root / LATEST, name_of(step) + "\n")
    _sweep(root)
    _prune(root, keep)
    return final


def load(folder: Path, parts: Mapping[str, Part]) -> int:
    """Load all parts of a verified checkpoint; its step.

    Raises:
        RunError: a file is missing or differs from the manifest, or a part is not there.
    """
    problem = fault(folder)
    if problem:
        raise RunError(f"{folder}: {problem}. Resume from an older checkpoint.")
    for name, part in parts.items():
        if not (folder / name).is_dir():
            raise RunError(f"{folder}: it has no part {name!r}. It was saved by another version.")
        part.load(folder / name)
    return int(json.loads((folder / MANIFEST).read_text())["step"])


def find(root: Path, step: int | None = None) -> Path:
    """The newest whole checkpoint, or that of a step.

    Raises:
        UsageError: there is none.
    """
    names = sorted((p.name for p in root.glob("[0-9]*") if p.is_dir()), reverse=True)
    wanted = names if step is None else [n for n in names if n == name_of(step)]
    for name in wanted:
        if fault(root / name) is None:
            return root / name
    what = "no whole checkpoint" if step is None else f"no whole checkpoint of step {step}"
    have = f"It has {', '.join(sorted(names))}." if names else "It has none."
    raise UsageError(f"{root}: {what}. {have}")


def fault(folder: Path) -> str | None:
    """What is wrong with a checkpoint on disk, or None."""
    try:
        files = json.loads((folder / MANIFEST).read_text())["files"]
    except (OSError, ValueError, KeyError):
        return "its manifest is missing or broken"
    found = _hashes(folder)
    for name, entry in files.items():
        if found.get(name) != entry:
            return f"{name} is missing or changed"
    return None


def _hashes(folder: Path) -> dict[str, dict[str, int | str]]:
    out: dict[str, dict[str, int | str]] = {}
    for path in _files(folder):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        name = path.relative_to(folder).as_posix()
        out[name] = {"bytes": path.stat().st_size, "sha256": digest}
    return out


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST)


def _sweep(root: Path) -> None:
    """Remove what was put aside; a process that was killed may have left some."""
    for path in root.glob(".[0-9]*"):
        shutil.rmtree(path)


def _prune(root: Path, keep: int) -> None:
    names = sorted(p.name for p in root.glob("[0-9]*") if p.is_dir())
    for name in names[:-keep]:
        shutil.rmtree(root / name)
