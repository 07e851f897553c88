"""Landlock: which files a process may still open, whoever it is.

In    folders to read, folders to list, the folder to write in
Out   a ruleset, made once and put on in every child
Not   metadata: stat, chmod and the like pass it, and are left to seccomp
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable, Iterator, Sequence

from agentrl.sandbox import kernel

WRITE_FILE, READ_FILE, READ_DIR = 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

READ = READ_FILE | READ_DIR
WORK = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
"""Rights in the scratch folder: no programs, devices, sockets, pipes or links are made there."""
_OF_FILES = WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_HANDLED = ((1, (1 << 13) - 1), (2, REFER), (3, TRUNCATE), (5, IOCTL_DEV))
"""Rights to files by the version that brought them."""
_NET_ABI, _TCP = 4, 0b11
_SCOPE_ABI, _SCOPES = 6, 0b11
_BENEATH = 1


def abi() -> int:
    """Return the version of Landlock that runs here.

    Raises:
        OSError: none does.
    """
    get_version = 1
    try:
        return kernel.call("landlock_create_ruleset", None, 0, get_version)
    except OSError as error:
        why = "it is not built into this kernel, or not among its lsm= at boot"
        raise OSError(error.errno, f"landlock: {why} (Linux 5.13 brought it)") from error


def ruleset(rights: Iterable[tuple[str, int]]) -> int:
    """Make a ruleset, as a descriptor that children inherit.

    Args:
        rights: paths that exist, and what is allowed there and beneath. All else is refused,
            as are TCP, abstract sockets and signals to others where the kernel can.

    Raises:
        OSError: there is no Landlock, or a path cannot be opened.
    """
    version = abi()
    handled = sum(bits for since, bits in _HANDLED if since <= version)
    request = struct.pack("Q", handled)
    if version >= _NET_ABI:
        request += struct.pack("Q", _TCP)
    if version >= _SCOPE_ABI:
        request += struct.pack("Q", _SCOPES)
    descriptor = kernel.call("landlock_create_ruleset", request, len(request), 0)
    for path, bits in rights:
        _allow(descriptor, path, bits & handled)
    return descriptor


def restrict(descriptor: int) -> None:
    """Put a ruleset on the calling thread, for good.

    Raises:
        OSError: privileges may still be gained, or the descriptor is none.
    """
    kernel.call("landlock_restrict_self", descriptor, 0)


def reading(
    files: Sequence[str], folders: Sequence[str], hidden: Sequence[str]
) -> Iterator[tuple[str, int]]:
    """Yield the rights to read `files`, to list `folders`, and to neither in `hidden`."""
    for path in folders:
        yield path, READ_DIR
    for path in files:
        yield from _around(os.path.realpath(path), {os.path.realpath(p) for p in hidden})


def _around(path: str, hidden: set[str]) -> Iterator[tuple[str, int]]:
    """Read all of a folder; where something beneath is hidden, each of the others instead."""
    if path in hidden:
        return
    if not any(other.startswith(path + "/") for other in hidden):
        yield path, READ
        return
    yield path, READ_DIR
    for name in os.listdir(path):
        yield from _around(f"{path}/{name}", hidden)


def _allow(descriptor: int, path: str, bits: int) -> None:
    with kernel.step(f"landlock {path}"):
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(file).st_mode):
                bits &= _OF_FILES
            rule = struct.pack("=Qi", bits, file)
            kernel.call("landlock_add_rule", descriptor, _BENEATH, rule, 0)
        finally:
            os.close(file)
