"""A file system of one's own for a program: one that is full, one that is read-only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PROBE = 'mount -t tmpfs -o size=64k tmpfs "$1"'


def can_mount(folder: Path) -> bool:
    """Whether this user may mount something that only its own process sees."""
    return shutil.which("unshare") is not None and not _run(PROBE, folder).returncode


def inside(folder: Path, program: str, *, size: str = "1m", then: str = "") -> str:
    """What a Python program prints that runs where `folder` is a small file system.

    `then` is a second program, which runs when the file system has become read-only.
    """
    first = f'mount -t tmpfs -o size={size} tmpfs "$1" && {sys.executable} -c "$2" "$1"'
    second = f'mount -o remount,ro "$1" && {sys.executable} -c "$3" "$1"'
    script = f"{first} && {second}" if then else first
    done = _run(script, folder, program, then)
    assert not done.returncode, done.stderr
    return done.stdout


def _run(script: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", str(folder), *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
