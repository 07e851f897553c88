"""What this machine has that matters before torch is loaded.

In    the operating system's word; metadata of installed packages
Out   cores that may be used, whether an NVIDIA GPU is there, packages that do not fit
Not   the answer of torch: nothing here imports it
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
from pathlib import Path


def cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores that this process may use: its affinity, or less in a limited container."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        share, period = quota.read_text().split()[:2]
        limit = int(share) // int(period)
    except (OSError, ValueError):
        return allowed or 1
    return max(1, min(limit, allowed or 1))


def has_gpu() -> bool:
    """Whether the driver of an NVIDIA GPU is loaded."""
    return Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists()


def torchvision_misfits() -> bool:
    """Whether torchvision is installed and was built for another torch than this CPU one.

    transformers loads torchvision where it finds it, and such a one fails in a way
    that looks like a broken model.
    """
    torch, vision = _version("torch"), _version("torchvision")
    if torch is None or vision is None or _local(torch) == _local(vision):
        return False
    return _local(torch) == "cpu" or (not _local(torch) and _without_cuda())


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _local(version: str) -> str:
    return version.partition("+")[2]


def _without_cuda() -> bool:
    """Whether torch's own record of its build names no CUDA; read as text, not run."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    record = Path(spec.origin).with_name("version.py")
    return re.search(r"^cuda\b.*= *None", record.read_text(), re.MULTILINE) is not None
