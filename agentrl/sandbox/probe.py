"""Probe: attacks that must fail, tried before a level is believed.

In    a way to run code at the level in question
Out   what got out, in words; nothing if all was held
Not   a proof: canaries die first in bad air, but not of everything
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentrl.sandbox.result import Limits, MiB, Result

Run = Callable[[str, Limits], Result]

HELD = "held"
"""What a canary prints when every attack in it was refused."""
LIMITS = Limits(cpu=20.0, wall=60.0, memory=256 * MiB)
"""Of the attacks. Generous in time: a busy machine must not look like an open jail."""

_ATTEMPT = """
def attempt(name, attack):
    try:
        answer = attack()
    except (OSError, ImportError, AttributeError):
        return
    if answer != -1:
        print("got out:", name)
        raise SystemExit(9)
"""


@dataclass(frozen=True, slots=True)
class Canary:
    """One kind of attack."""

    name: str
    """What would be lost, as a person says it."""
    code: str
    limits: Limits = LIMITS


_READ = """
import os
attempt("it read /etc/passwd", lambda: open("/etc/passwd").read())
attempt("it read a file of this process", lambda: open(PATH).read())
attempt("it listed a folder of this process", lambda: os.listdir(os.path.dirname(PATH)))
attempt("it read another process's environment", lambda: open("/proc/1/environ").read())
attempt("it read its parent's memory", lambda: open(f"/proc/{os.getppid()}/mem").read())
attempt("it saw agentrl", lambda: __import__("agentrl.task"))
attempt("it saw agentrl_environments", lambda: __import__("agentrl_environments"))
"""
_WRITE = """
import os
attempt("it wrote to a file of this process", lambda: open(PATH, "a").write("x"))
attempt("it emptied a file of this process", lambda: os.truncate(PATH, 0))
attempt("it changed the mode of a file of this process", lambda: os.chmod(PATH, 0o600))
attempt("it removed a file of this process", lambda: os.remove(PATH))
for folder in ("/", "/tmp", "/var/tmp", "/dev/shm", "/run", os.path.dirname(PATH)):
    attempt(f"it wrote in {folder}", lambda: open(f"{folder}/{NAME}", "x"))
attempt("it changed the standard library", lambda: open(os.__file__, "a"))
"""
_START = """
import os
attempt("it forked", os.fork)
attempt("it started a program", lambda: os.execv("/bin/sh", ["sh", "-c", "echo got out: sh"]))
attempt("it spawned a program", lambda: os.posix_spawn("/bin/sh", ["sh", "-c", "exit"], {}))
"""
_CONNECT = """
import socket
for family in ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        number = getattr(socket, family)
        attempt(f"it made a socket ({family})", lambda: socket.socket(number, kind))
"""
_TOUCH = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
attempt("it could signal its parent", lambda: os.kill(os.getppid(), 0))
attempt("it could signal the process it serves", lambda: os.kill(HOST, 0))
attempt("it could signal everything", lambda: os.kill(-1, 0))
attempt("it opened a process", lambda: os.pidfd_open(HOST))
seize, read_words = 0x4206, 2
attempt("it could trace its parent", lambda: libc.ptrace(seize, os.getppid(), 0, 0))
attempt("it could trace the process it serves", lambda: libc.ptrace(seize, HOST, 0, 0))
"""
_RISE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
new_user, new_mount = 0x10000000, 0x20000
attempt("it made a user namespace", lambda: libc.unshare(new_user))
attempt("it made a mount namespace", lambda: libc.unshare(new_mount))
attempt("it mounted", lambda: libc.mount(b"x", b"/", b"tmpfs", 0, None))
attempt("it became root", lambda: os.setuid(0))
attempt("it took the kernel's other call gate", lambda: libc.syscall(0x40000000 + 39))
attempt("it ran as root", lambda: -1 if os.getuid() else 0)
"""
_GROW = """
import mmap
def attempt_memory(name, attack):
    try:
        attack()
    except (MemoryError, OSError):
        return
    print("got out:", name)
    raise SystemExit(9)
attempt_memory("it took more memory than its limit", lambda: bytearray(MEMORY))
attempt_memory("it mapped more memory than its limit", lambda: mmap.mmap(-1, MEMORY))
"""
_IMPORTS = """
import asyncio, bisect, collections, ctypes, dataclasses, datetime, decimal, fractions, functools
import hashlib, heapq, itertools, json, math, random, re, sqlite3, statistics, string, textwrap
import threading, typing, unicodedata, uuid
thread = threading.Thread(target=math.factorial, args=(10,))
thread.start()
thread.join()
assert math.isqrt(10 ** 40) == 10 ** 20
for module in MODULES:
    __import__(module)
"""


def probe(run: Run, modules: Sequence[str] = ()) -> str:
    """Try to get out in every way that is worth a try, and see that honest code still runs.

    Args:
        run: runs code at the level in question.
        modules: what the code has been promised that it can import.

    Returns:
        The first thing that went wrong, or nothing.
    """
    with _bait() as bait:
        before = bait.read_bytes()
        for canary in canaries(bait, modules):
            why = judge(canary, run(canary.code, canary.limits))
            if why:
                return why
        if not bait.exists() or bait.read_bytes() != before or len(list(bait.parent.iterdir())) > 1:
            return "writing files: a file outside was changed, although the code said it was not"
    return ""


def canaries(bait: Path, modules: Sequence[str] = ()) -> tuple[Canary, ...]:
    """List the attacks on this process, which owns the file `bait`."""
    values = {
        "PATH": str(bait),
        "NAME": f".agentrl-canary-{secrets.token_hex(8)}",
        "HOST": os.getpid(),
        "MEMORY": LIMITS.memory + MiB,
        "MODULES": tuple(modules),
    }
    head = "".join(f"{name} = {value!r}\n" for name, value in values.items()) + _ATTEMPT
    attacks = {
        "reading files": _READ,
        "writing files": _WRITE,
        "starting processes": _START,
        "using the network": _CONNECT,
        "reaching other processes": _TOUCH,
        "gaining rights": _RISE,
        "taking memory": _GROW,
        "running honest code": _IMPORTS,
    }
    room = Limits(cpu=LIMITS.cpu, wall=LIMITS.wall)
    return tuple(
        Canary(name, f"{head}{code}print({HELD!r})\n", room if code is _IMPORTS else LIMITS)
        for name, code in attacks.items()
    )


def judge(canary: Canary, result: Result) -> str:
    """Say what a canary's result means: nothing if it was held.

    The code is this project's own, so that what it prints can be believed.
    """
    said = result.stdout.strip()
    if result.status == "ok" and said == HELD:
        return ""
    last = result.problem or said.rpartition("\n")[2] or "it said nothing"
    if "got out: " in said:
        last = said.partition("got out: ")[2].partition("\n")[0]
        return f"{canary.name} is not held: {last}"
    return f"{canary.name}: it ended with {result.status}: {last[:300]}"


@contextmanager
def _bait() -> Iterator[Path]:
    """Make a file that everybody may read and write, so that rights alone do not hold it."""
    folder = tempfile.mkdtemp(prefix="agentrl-canary-")
    try:
        os.chmod(folder, 0o777)
        bait = Path(folder, "bait")
        bait.write_text(secrets.token_hex(16))
        bait.chmod(0o666)
        yield bait
    finally:
        shutil.rmtree(folder)
