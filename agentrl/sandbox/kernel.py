"""Kernel: the few calls that Python's library does not offer, by ctypes.

In    names of calls and their arguments
Out   what the kernel answers; OSError with the name of the call
Not   a binding: no more than the sandbox needs, and only on Linux
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from agentrl.sandbox.syscalls import numbers

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x2_0000, 0x400_0000, 0x800_0000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x1000_0000, 0x2000_0000, 0x4000_0000
_CHILD_CLEARTID, _CHILD_SETTID = 0x20_0000, 0x100_0000

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_CAPBSET_DROP = 1, 4, 8, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_GET_TID_ADDRESS = 36, 38, 40

CAP_DAC_READ_SEARCH, CAP_LAST = 2, 63
_CAPABILITIES_V3 = 0x20080522

AT_FDCWD = -100


@contextmanager
def step(name: str) -> Iterator[None]:
    """Put the name of a step before what went wrong in it."""
    try:
        yield
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise OSError(getattr(error, "errno", None) or 0, f"{name}: {why}") from error


def call(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Make one call of the kernel.

    Raises:
        OSError: it refused; the message names the call.
    """
    return _call(_libc(), name, *arguments)


def prctl(option: int, value: int = 0) -> int:
    """Change a property of the calling process."""
    return call("prctl", option, value, 0, 0, 0)


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """Mount a file system, or a folder a second time."""
    with step(target):
        call(
            "mount",
            os.fsencode(source),
            os.fsencode(target),
            os.fsencode(kind) if kind else None,
            flags,
            os.fsencode(data),
        )


def mount_setattr(path: str, attributes: int) -> None:
    """Set attributes of the mount at a path and of all beneath it."""
    recursive = 0x8000
    request = struct.pack("QQQQ", attributes, 0, 0, 0)
    with step(path):
        call("mount_setattr", AT_FDCWD, os.fsencode(path), recursive, request, len(request))


def capabilities() -> int:
    """Return the capabilities that the calling thread may use, as bits."""
    header = struct.pack("Ii", _CAPABILITIES_V3, 0)
    room = ctypes.create_string_buffer(24)
    call("capget", header, room)
    effective = struct.unpack("6I", room.raw)
    return int(effective[1]) | int(effective[4]) << 32


def set_capabilities(bits: int) -> None:
    """Keep these capabilities and no others."""
    header = struct.pack("Ii", _CAPABILITIES_V3, 0)
    low, high = bits & 0xFFFF_FFFF, bits >> 32
    call("capset", header, struct.pack("6I", low, low, 0, high, high, 0))


def drop_bounding_set() -> None:
    """Give up for good what no program that is started later may regain."""
    for capability in range(CAP_LAST + 1):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            # The kernel does not know so many; with nothing dropped it was not permitted.
            if capability == 0:
                raise
            return


def fork(flags: int) -> int:
    """Fork the calling process, which has one thread, into new namespaces.

    Raises:
        OSError: the kernel refused.
    """
    api = ctypes.pythonapi
    for name in ("PyOS_BeforeFork", "PyOS_AfterFork_Parent", "PyOS_AfterFork_Child"):
        getattr(api, name).restype = None
    # The C library notes the number of the thread where the kernel clears it at its end.
    note = _tid_address()
    flags |= signal.SIGCHLD | ((_CHILD_SETTID | _CHILD_CLEARTID) if note else 0)
    last = (note, 0) if os.uname().machine == "x86_64" else (0, note)
    libc = _libc()
    api.PyOS_BeforeFork()
    pid = -1
    try:
        pid = _call(libc, "clone", flags, 0, 0, *last)
    finally:
        if pid != 0:
            api.PyOS_AfterFork_Parent()
    if pid == 0:
        api.PyOS_AfterFork_Child()
    return pid


def _tid_address() -> int:
    room = ctypes.create_string_buffer(8)
    try:
        call("prctl", PR_GET_TID_ADDRESS, room, 0, 0, 0)
    except OSError:
        return 0  # a kernel built without it; only a thread of the same number would notice
    return int.from_bytes(room.raw, "little")


def _call(
    libc: ctypes.PyDLL, name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None
) -> int:
    number = numbers(os.uname().machine)[name]
    longs = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    answer: int = libc.syscall(ctypes.c_long(number), *longs)
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return answer


@cache
def _libc() -> ctypes.PyDLL:
    # PyDLL keeps the interpreter's lock: none of these calls waits, and a fork must hold it.
    libc = ctypes.PyDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
