"""Parts of a run ⇄ checkpoints/NNNNNN, atomically.

In    a step and named parts, each of which can save itself into a folder
Out   a folder that appears whole or not at all, with a manifest of sizes and sha256
Not   what a part holds: whoever adds a part says how it is saved and loaded
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from agentrl import disk
from agentrl.errors import RunError, UsageError, blame
from agentrl.manifest import Manifest, described, files_of
from agentrl.memory.size import in_words

LATEST = "latest"
POLICY = "policy"
"""Part that is a Hugging Face folder: any program can load it."""

_NAME = re.compile(r"(\d{6,})|\.(\d{6,})\.old")
"""A checkpoint; or one that was about to be replaced when its process was killed."""
_ASIDE = re.compile(r"\.\d{6,}\.(\d+|old)")


class Part(Protocol):
    """Something that a run needs to go on."""

    def save(self, folder: Path) -> None:
        """Write itself into an empty folder."""
        ...

    def load(self, folder: Path) -> None:
        """Become what was saved there."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint whose every file is what was written."""

    path: Path
    manifest: Manifest
    faults: Mapping[Path, str] = field(default_factory=dict)
    """Newer ones, each with what is wrong with it."""
    missing: str = ""
    """What `latest` names, if that is not there."""

    @property
    def step(self) -> int:
        """Of the run, when it was saved."""
        return self.manifest.step

    @property
    def warning(self) -> str:
        """What a person should know before it is used; empty: it is the newest."""
        told = [f"{path.name}: {fault}" for path, fault in self.faults.items()]
        if self.missing:
            told.append(f"{LATEST} names {self.missing}, which is not there")
        if not told:
            return ""
        return f"{self.path.parent}: {'; '.join(told)}. {self.path.name} is whole and is used."


def name_of(step: int) -> str:
    """Folder name of a step."""
    return f"{step:06d}"


def save(
    root: Path,
    step: int,
    parts: Mapping[str, Part],
    *,
    keep: int,
    keep_best: int = 0,
    accuracy: float | None = None,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write all parts of a step, see that they can be read back, and let older ones go.

    The folder is written aside, synced, renamed and verified; `latest` is replaced after
    that, so at every moment it names a whole checkpoint. Only then are others removed.

    Args:
        root: Folder of checkpoints, which this process has for itself.
        step: Names the checkpoint.
        parts: What is saved.
        keep: The newest so many stay.
        keep_best: So many of the highest accuracy stay too; of equals the newest.
        accuracy: Held-out accuracy at this step, where it was measured.
        about: What made it, for the manifest.

    Raises:
        RunError: it could not be written; those that were there still are.
    """
    final = root / name_of(step)
    with blame(RunError, f"{root}: no folder can be made there"):
        root.mkdir(parents=True, exist_ok=True)
        _sweep(root)
    with blame(RunError, _unsaved(root, final)):
        aside = root / f".{final.name}.{os.getpid()}"
        try:
            _write(aside, parts)
            Manifest(step, described(aside), accuracy, about or {}).write(aside)
            _put_in_place(aside, final)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        _verify(final)
        disk.replace(root / LATEST, name_of(step) + "\n")
        _sweep(root)
        _prune(root, keep, keep_best)
    return final


def load(found: Found, parts: Mapping[str, Part]) -> int:
    """Load all parts of a checkpoint; its step.

    Raises:
        RunError: a part is not there.
    """
    folder = found.path
    for name in parts:
        if not (folder / name).is_dir():
            raise RunError(f"{folder}: it has no part {name!r}. It was saved by another version.")
    for name, part in parts.items():
        part.load(folder / name)
    return found.step


def newest(root: Path, step: int | None = None) -> Found:
    """The newest whole checkpoint, or that of a step; every file of it is read.

    Raises:
        UsageError: there is none, with what is wrong with each.
    """
    there = _by_step(root)
    faults: dict[Path, str] = {}
    for path in reversed(there.values()):
        if step is not None and _step(path) != step:
            continue
        problem = fault(path)
        if problem is None:
            manifest = Manifest.read(path)
            assert manifest is not None
            return Found(path, manifest, faults, "" if step is not None else _lost(root))
        faults[path] = problem
    what = "no whole checkpoint" if step is None else f"no whole checkpoint of step {step}"
    broken = "".join(f" {path.name}: {problem}." for path, problem in faults.items())
    have = f"It has {', '.join(map(name_of, there))}." if there else "It has none."
    raise UsageError(f"{root}: {what}.{broken} {have}")


def find(root: Path, step: int | None = None) -> Path:
    """The folder of `newest`."""
    return newest(root, step).path


def any_saved(root: Path) -> bool:
    """Whether there is a checkpoint, whole or not."""
    return bool(_by_step(root))


def fault(folder: Path) -> str | None:
    """What is wrong with a checkpoint on disk, or None."""
    manifest = Manifest.read(folder)
    if manifest is None:
        return "its manifest is missing or broken"
    if manifest.step != _step(folder):
        return f"its manifest is that of step {manifest.step}"
    return manifest.fault(folder)


def put_away(found: Found) -> None:
    """Keep damaged checkpoints under names that nothing takes for a checkpoint's."""
    for path in found.faults:
        names = [f"{name_of(_step(path))}.damaged{end}" for end in ("", *map(str, range(2, 100)))]
        free = next(name for name in names if not (path.parent / name).exists())
        path.rename(path.parent / free)


def _write(aside: Path, parts: Mapping[str, Part]) -> None:
    for name, part in parts.items():
        folder = aside / name
        folder.mkdir(parents=True)
        part.save(folder)


def _put_in_place(aside: Path, final: Path) -> None:
    """See all of it on disk, then rename; what was there is put aside, not removed."""
    files = files_of(aside)
    for path in files:
        disk.sync_file(path)
    for folder in sorted({aside, *(path.parent for path in files)}):
        disk.sync_folder(folder)
    if final.exists():
        final.rename(final.with_name(f".{final.name}.old"))
    aside.rename(final)
    disk.sync_folder(final.parent)


def _verify(final: Path) -> None:
    problem = fault(final)
    if problem:
        raise RunError(
            f"{final}: {problem}. What was written is not what is read back: the disk or the "
            "memory is at fault. Older checkpoints stay; go on elsewhere with --resume."
        )


def _unsaved(root: Path, final: Path) -> str:
    """What a failure to save begins with; libraries that write seldom say that a disk is full."""
    there = list(_by_step(root).values())
    free = in_words(shutil.disk_usage(root).free)
    stays = f"there is no older one ({free} are free)"
    if there:
        manifest = Manifest.read(there[-1])
        size = sum(entry.get("bytes", 0) for entry in manifest.files.values()) if manifest else 0
        stays = f"{name_of(_step(there[-1]))} of {in_words(size)} stays ({free} are free)"
    return f"{final}: it could not be saved; {stays}. Mend this, then go on with --resume"


def _by_step(root: Path) -> dict[int, Path]:
    """Checkpoints in order; one put aside counts where no other of its step is there."""
    found: dict[int, Path] = {}
    for path in sorted(root.glob("*"), reverse=True) + sorted(root.glob(".*.old")):
        if _NAME.fullmatch(path.name) and path.is_dir():
            found.setdefault(_step(path), path)
    return dict(sorted(found.items()))


def _step(path: Path) -> int:
    found = _NAME.fullmatch(path.name)
    return int(found[1] or found[2]) if found else -1


def _lost(root: Path) -> str:
    """What `latest` names, if it is not there."""
    with suppress(OSError, ValueError):
        name = (root / LATEST).read_text(encoding="utf-8").strip()
        return "" if (root / name).is_dir() else name
    return ""


def _sweep(root: Path) -> None:
    """Remove what a process that was killed left aside, unless nothing else is left of it."""
    for path in root.glob(".*"):
        if not _ASIDE.fullmatch(path.name):
            continue
        final = root / path.name.split(".")[1]
        if path.suffix == ".old" and not final.exists():
            path.rename(final)
        else:
            shutil.rmtree(path)
    disk.sweep(root)


def _prune(root: Path, keep: int, keep_best: int) -> None:
    there = _by_step(root)
    stay = set(list(there)[-keep:])
    told = {step: manifest for step, path in there.items() if (manifest := Manifest.read(path))}
    scored = sorted((m.accuracy, step) for step, m in told.items() if m.accuracy is not None)
    stay |= {step for _, step in scored[::-1][:keep_best]}
    for step, path in there.items():
        if step not in stay:
            shutil.rmtree(path)
