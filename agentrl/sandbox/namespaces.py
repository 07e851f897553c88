"""Namespaces: a root folder of its own, in which only what may be seen exists.

In    files and folders, by their usual paths
Out   the same paths, read-only, in an otherwise empty root without /proc, /sys and network
Not   a copy: what changes in a shown folder outside shows inside
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentrl.sandbox import kernel

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x4_0000
_MNT_DETACH = 2
SPACES = kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
_MOST_LINKS = 40
_MOST_FILES = 4096


@dataclass(frozen=True, slots=True)
class Layout:
    """What a new root is made of."""

    binds: tuple[str, ...]
    """Real paths that are shown, each after those that it lies in."""
    masks: tuple[str, ...]
    """Folders within them that are shown empty."""
    links: tuple[tuple[str, str], ...]
    """Symbolic links on the way to what is shown, and their targets."""


def layout(files: Iterable[str], folders: Iterable[str], hidden: Iterable[str]) -> Layout:
    """Work out mounts and links such that every path of `files` means inside what it means here.

    Raises:
        OSError: a path does not exist, or its links go in circles.
    """
    links: dict[str, str] = {}
    wanted = {resolve(path, links) for path in files}
    masks = tuple(sorted({resolve(path, links) for path in (*hidden, *folders)}))
    binds: list[str] = []
    for path in sorted(wanted - set(masks)):
        if not within(path, binds, masks):
            binds.append(path)
    shown = [(at, to) for at, to in sorted(links.items()) if not within(at, binds, masks)]
    return Layout(tuple(binds), masks, tuple(shown))


def within(path: str, binds: Sequence[str], masks: Sequence[str]) -> bool:
    """Tell whether a path is shown by one of the binds, with no mask between."""
    inner = _innermost(path, binds)
    return bool(inner) and len(_innermost(path, masks)) <= len(inner)


def resolve(path: str, links: dict[str, str]) -> str:
    """Follow the links of a path by hand and note each of them.

    Raises:
        OSError: it does not exist, or its links go in circles.
    """
    here, ahead, followed = "", path.split("/"), 0
    while ahead:
        name = ahead.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            here = os.path.dirname(here).rstrip("/")
            continue
        here = f"{here}/{name}"
        if not stat.S_ISLNK(os.lstat(here).st_mode):
            continue
        followed += 1
        if followed > _MOST_LINKS:
            raise OSError(f"{path}: its links go in circles")
        target = os.readlink(here)
        links[here] = target
        ahead = target.split("/") + ahead
        here = "" if target.startswith("/") else os.path.dirname(here).rstrip("/")
    return here or "/"


def new_root(plan: Layout, scratch: str) -> None:
    """Move the calling process, alone in its mount namespace, into a new root.

    Raises:
        OSError: a mount is refused; the message names the path.
    """
    kernel.mount("none", "/", None, MS_REC | MS_PRIVATE)
    # /proc is sure to exist; what lies beneath the mount comes back with the old root.
    base = "/proc"
    kernel.mount("root", base, "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,mode=755")
    os.mkdir(f"{base}/old")
    kernel.call("pivot_root", os.fsencode(base), os.fsencode(f"{base}/old"))
    os.chdir("/")
    _show(plan)
    for path in DEVICES:
        _bind(path)
    os.makedirs(scratch)
    kernel.call("umount2", b"/old", _MNT_DETACH)
    os.rmdir("/old")
    kernel.mount_setattr("/", MS_RDONLY | MS_NOSUID)
    for path in plan.binds:
        kernel.mount_setattr(path, MS_NODEV)
    socket.sethostname("sandbox")


def scratch_folder(path: str, size: int, owner: int) -> None:
    """Mount a folder that vanishes with the namespace, and go there.

    Args:
        path: an empty folder.
        size: most bytes of all its files.
        owner: uid and gid, as the calling process sees them.

    Raises:
        OSError: the mount is refused.
    """
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    data = f"size={size},nr_inodes={_MOST_FILES},mode=700,uid={owner},gid={owner}"
    kernel.mount("scratch", path, "tmpfs", flags, data)
    os.chdir(path)


def _show(plan: Layout) -> None:
    for path in sorted({*plan.binds, *plan.masks}):
        if path in plan.masks:
            os.makedirs(path, exist_ok=True)
            kernel.mount("mask", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
        else:
            _bind(path)
    for path, target in plan.links:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)


def _bind(path: str) -> None:
    source = f"/old{path}"
    if os.path.isdir(source):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o444))
    kernel.mount(source, path, None, MS_BIND | MS_REC)


def _innermost(path: str, among: Iterable[str]) -> str:
    """The longest of the paths that a path is or lies in, or nothing."""
    found = [other for other in among if path == other or path.startswith(other + "/")]
    return max(found, key=len, default="")
