"""Identity: whom the code runs as, which is never root of the machine.

In    who the server is, and which uids it may hand out
Out   a choice of the way down, and the way down itself
Not   the only wall: below level 3 an ordinary user's code stays that user
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import Literal

from agentrl.sandbox import kernel

Way = Literal["drop", "map", "stay"]
"""drop: root becomes a uid of nobody's. map: a user becomes one inside a user namespace, which
is nobody there. stay: a user stays that user, without rights to gain any."""

INSIDE = 1000
"""Uid and gid that the code sees where it was mapped."""
SLOTS = 1024
"""Uids of one server, one for each child at a time."""
_BEYOND_USERS, _SERVERS = 0x7000_0000, 1 << 17
_IN_CONTAINER, _FEW_SERVERS = 30_000, 32
_SMALL = 65_000


def spare_uid(pid: int, uid_map: str) -> int:
    """Choose the first of a server's uids, so that servers do not share any.

    Args:
        pid: the server's or its host's number.
        uid_map: the text of /proc/self/uid_map: which uids exist here.

    Returns:
        The first of `SLOTS` uids; 0 where root has no other uid to become.
    """
    sizes = [(int(row[0]), int(row[2])) for row in map(str.split, uid_map.splitlines())]
    end = max((first + count for first, count in sizes), default=0)
    if end > _BEYOND_USERS + _SERVERS * SLOTS:
        return _BEYOND_USERS + pid % _SERVERS * SLOTS
    if end > _SMALL:
        return _IN_CONTAINER + pid % _FEW_SERVERS * SLOTS
    return 0


def way_down(level: int, uid: int) -> Way:
    """Choose how the code stops being who the server is.

    Raises:
        OSError: the server is root of the machine and can become nobody else.
    """
    if os.geteuid() != 0:
        return "map" if level == 3 else "stay"
    if uid:
        return "drop"
    with open("/proc/self/uid_map", encoding="ascii") as file:
        outside = [row.split()[1] for row in file]
    if level == 3 and outside and "0" not in outside:
        return "map"
    raise OSError(errno.EPERM, "uid: this is root, and there is no other uid to become")


def needs_search(files: Iterable[str]) -> bool:
    """Tell whether some file could not be reached by another user."""
    return any(_closed(os.path.realpath(path)) for path in files)


def keepable(files: Iterable[str]) -> int:
    """Return the capability that another user needs to read these files, or 0.

    Raises:
        OSError: it is needed, and the server does not have it.
    """
    if not needs_search(files):
        return 0
    wanted = 1 << kernel.CAP_DAC_READ_SEARCH
    if kernel.capabilities() & wanted:
        return wanted
    closed = next(path for path in files if _closed(os.path.realpath(path)))
    raise OSError(
        errno.EACCES,
        f"uid: {closed} lies where only root may look, and the code does not run as root. "
        "Open the folders above it (chmod o+x), or use a Python that everyone can read",
    )


def drop(uid: int, keep: int = 0) -> None:
    """Become a uid of nobody's for good, with these capabilities left.

    Raises:
        OSError: the uid does not exist here, or the server may not change its own.
    """
    kernel.prctl(kernel.PR_SET_KEEPCAPS, int(bool(keep)))
    with kernel.step(f"uid {uid}"):
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    kernel.set_capabilities(keep)


def map_user(proc: int, inside: int, outside: tuple[int, int]) -> None:
    """In a new user namespace, be `inside`, and outside who one was.

    Args:
        proc: descriptor of /proc.
        inside: uid and gid to be.
        outside: uid and gid that one had, which can no longer be asked for.

    Raises:
        OSError: the namespace may not be set up, as some distributions have it.
    """
    uid, gid = outside
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{inside} {uid} 1"),
        ("gid_map", f"{inside} {gid} 1"),
    ):
        with kernel.step(name):
            file = os.open(f"self/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
            try:
                os.write(file, text.encode())
            finally:
                os.close(file)


def _closed(path: str) -> bool:
    """Whether others may not read a path or pass a folder above it."""
    readable, passable = 0o4, 0o1
    status = os.stat(path).st_mode
    if not status & readable:
        return True
    while (path := os.path.dirname(path)) != "/":
        if not os.stat(path).st_mode & passable:
            return True
    return False
