"""A folder ⇄ manifest.json: what every file in it is, so that any change shows.

In    a folder that was written; later the same folder, whatever happened to it
Out   sizes and sha256 of its files; the first thing that is wrong with them, in words
Not   a signature: whoever can change the files can change the manifest too
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from agentrl import disk

FILE = "manifest.json"
SELF = "manifest_sha256"
"""Of all else in the manifest; those of older versions have none."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a checkpoint says about itself."""

    step: int
    files: Mapping[str, Mapping[str, Any]]
    """Path below the folder to "bytes" and "sha256"."""
    accuracy: float | None = None
    """Held-out accuracy at this step, where it was measured."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What made it: versions, settings, template."""

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The manifest of a folder; None where it is missing or broken."""
        try:
            found = json.loads((folder / FILE).read_text(encoding="utf-8"))
            if found.get(SELF, _digest(found)) != _digest(found):
                return None
            files = {str(name): dict(entry) for name, entry in found["files"].items()}
            step, accuracy, about = int(found["step"]), found.get("accuracy"), found.get("about")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        if not isinstance(accuracy, float | int | None) or not isinstance(about, dict | None):
            return None
        return cls(step, files, accuracy, about or {})

    def write(self, folder: Path) -> None:
        """Put it into the folder that it tells about."""
        told = {"step": self.step, "accuracy": self.accuracy, "about": self.about}
        whole = disk.plain({**told, "files": self.files})
        text = json.dumps({**whole, SELF: _digest(whole)}, indent=1)
        disk.replace(folder / FILE, text + "\n")

    def fault(self, folder: Path) -> str | None:
        """What is wrong with the files, or None. Sizes first: they cost nothing."""
        for look in (_size_fault, _hash_fault):
            for name, entry in self.files.items():
                problem = look(folder / name, entry)
                if problem:
                    return f"{name} {problem}"
        return None


def files_of(folder: Path) -> list[Path]:
    """Every file but the manifest."""
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name != FILE)


def described(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and sha256 of every file."""
    return {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": _sha256(path),
        }
        for path in files_of(folder)
    }


def _size_fault(path: Path, entry: Mapping[str, Any]) -> str | None:
    try:
        size = path.stat().st_size
    except OSError:
        return "is missing"
    wanted = entry.get("bytes")
    return None if size == wanted else f"has {size} bytes instead of {wanted}"


def _hash_fault(path: Path, entry: Mapping[str, Any]) -> str | None:
    try:
        found = _sha256(path)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None if found == entry.get("sha256") else "is not what was written"


def _digest(told: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in told.items() if name != SELF}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
