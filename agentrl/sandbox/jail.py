"""Jail: what a process gives up before it runs a policy's code, in the one safe order.

In    Jail: the level, what the code may see, the uids to run as
Out   in the server, Prepared; in each child, a process that can only compute, read what
      it was shown, and write to the descriptors it was left
Not   the choice of the level, nor a judge of whether it holds: that is what the probe tries
"""

from __future__ import annotations

import math
import os
import resource
import select
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from agentrl.sandbox import identity, kernel, landlock, namespaces, seccomp
from agentrl.sandbox.result import Limits, MiB

SCRATCH = "/scratch/work"
"""The code's own folder at level 3: HOME, TMPDIR and where it starts. It goes with the child."""
STACK = 8 * MiB


@dataclass(frozen=True, slots=True)
class Jail:
    """How to hold the code: plain data, made on the host and sent to the server."""

    level: int
    """3 namespaces, 2 Landlock and seccomp, 1 limits alone."""
    files: tuple[str, ...]
    """Files and folders that may be read, with all beneath them."""
    folders: tuple[str, ...]
    """Folders that may be listed and whose content is shown only where `files` says so; these
    are what the server appends to `sys.path`."""
    hidden: tuple[str, ...] = ()
    """Folders beneath `files` that are left out (site-packages inside the standard library)."""
    uid: int = 0
    """First of the uids used where the host is root; 0 where it is not."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the server holds ready for its children."""

    jail: Jail
    way: identity.Way
    """How a child stops being who the server is."""
    search: int
    """Capabilities left to the code: at most the one to pass folders that only root may."""
    proc: int
    """Descriptor of /proc, which no child sees."""
    server: int
    """Pidfd of the server, by which a child learns that it has gone."""
    ruleset: int
    """Descriptor of the Landlock rules; -1 at level 1."""


def prepare(jail: Jail) -> Prepared:
    """Make the calling process a server; it must be single-threaded and not yet hold secrets.

    What is not in `jail.files` can no longer be imported afterwards at level 3.

    Raises:
        OSError: a step is not possible here; the message names it.
    """
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    way = identity.way_down(jail.level, jail.uid)
    search, ruleset = 0, -1
    if jail.level > 1:
        seccomp.supported()
        landlock.abi()
    if jail.level == 3:
        _leave(jail, way, proc)
    elif way == "drop":
        search = identity.keepable(jail.files)
    if way == "drop":
        kernel.drop_bounding_set()
    if jail.level > 1:
        ruleset = landlock.ruleset(_rights(jail))
        seccomp.program(jail.level, 1)  # kept for the children that are first in their namespace
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    return Prepared(jail, way, search, proc, os.pidfd_open(os.getpid()), ruleset)


def seal(prepared: Prepared) -> None:
    """Check, after the server's imports and before its first fork, that children are apart.

    Raises:
        OSError: what was imported started threads, or holds memory that forks would share.
    """
    threads = _read(prepared.proc, "self/stat").rpartition(")")[2].split()[17]
    if threads != "1":
        raise OSError(f"preload: what was imported started threads ({threads} run)")
    for row in _read(prepared.proc, "self/maps").splitlines():
        rights, name = row.split(maxsplit=5)[1], row[73:]
        if rights[1] == "w" and rights[3] == "s":
            raise OSError(f"preload: what was imported shares memory with forks ({name})")


def fork(prepared: Prepared) -> int:
    """Fork as `os.fork` does; at level 3 the child is the first of its own pid namespace.

    Raises:
        OSError: the kernel refused.
    """
    if prepared.jail.level < 3:
        return os.fork()
    spaces = kernel.CLONE_NEWPID | kernel.CLONE_NEWNS
    return kernel.fork(spaces | (kernel.CLONE_NEWUSER if prepared.way == "map" else 0))


def enter(prepared: Prepared, slot: int, limits: Limits, keep: Sequence[int] = ()) -> None:
    """Lock the calling child in; all that runs afterwards runs inside.

    Descriptors 0, 1, 2 and those of `keep` stay open, all others are closed.

    Args:
        prepared: from the server that it was forked from.
        slot: from 0 to `identity.SLOTS`; no two living children have the same.
        limits: what the code may use.
        keep: further descriptors that stay open.

    Raises:
        OSError: a step failed; the message names it, and the child must end at once.
    """
    os.setsid()
    held = (prepared.proc, prepared.server, prepared.ruleset)
    _close_others({0, 1, 2, *keep, *held} - {-1})
    mapped = _mapped(prepared.proc)
    tasks = _tasks(prepared.proc) if prepared.way == "stay" else 0
    # The files to write to belong to root while the process may not be looked into.
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    _first_to_go(prepared.proc)
    if prepared.way == "map":
        identity.map_user(prepared.proc, identity.INSIDE, (0, 0))
    uid = identity.INSIDE if prepared.way == "map" else prepared.jail.uid + slot
    if prepared.jail.level == 3:
        namespaces.scratch_folder(SCRATCH, limits.scratch, uid)
    _step_down(prepared, uid)
    _limit(limits, mapped, tasks)
    _lock(prepared)


def _leave(jail: Jail, way: identity.Way, proc: int) -> None:
    """Leave the machine's namespaces, and its files."""
    plan = namespaces.layout(jail.files, jail.folders, jail.hidden)
    outside = os.geteuid(), os.getegid()
    kernel.call("unshare", namespaces.SPACES | (kernel.CLONE_NEWUSER if way == "map" else 0))
    if way == "map":
        identity.map_user(proc, 0, outside)
    namespaces.new_root(plan, SCRATCH)


def _rights(jail: Jail) -> list[tuple[str, int]]:
    rights = list(landlock.reading(jail.files, jail.folders, jail.hidden))
    rights += [("/dev/null", landlock.READ_FILE | landlock.WRITE_FILE)]
    rights += [(path, landlock.READ_FILE) for path in ("/dev/zero", "/dev/urandom")]
    if jail.level == 3:
        # A rule on a mount point is not asked; one on the folder above is.
        rights.append((os.path.dirname(SCRATCH), landlock.WORK))
    return rights


def _close_others(keep: set[int]) -> None:
    """Close what lies between the descriptors that are kept, and all after them."""
    before = -1
    for descriptor in sorted(keep):
        # An empty range must not be asked for: it reaches the kernel as all of them.
        if before + 1 < descriptor:
            os.closerange(before + 1, descriptor)
        before = descriptor
    os.closerange(before + 1, _most_files())


def _most_files() -> int:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 1 << 20 if most == resource.RLIM_INFINITY else most


def _step_down(prepared: Prepared, uid: int) -> None:
    """Give up uid and capabilities."""
    if prepared.way == "drop":
        identity.drop(uid, prepared.search)
    elif prepared.way == "map":
        kernel.drop_bounding_set()
        kernel.set_capabilities(0)


def _limit(limits: Limits, mapped: int, tasks: int) -> None:
    """Set the limits of the kernel, which the code cannot raise again.

    Of processor time it counts whole ticks, and so too many: the host looks more closely and
    is first, and this holds if there is no host any more.
    """
    table = {
        "CORE": 0,
        "CPU": math.ceil(limits.cpu) + 1 if math.isfinite(limits.cpu) else resource.RLIM_INFINITY,
        "AS": mapped + limits.memory,
        "FSIZE": limits.scratch,
        "NOFILE": limits.files,
        "STACK": STACK,
        "NPROC": tasks + limits.processes,
        "MEMLOCK": 0,
        "MSGQUEUE": 0,
    }
    for name, value in table.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(kind)
        # Whoever started the host may have been stricter; nobody may go beyond that again.
        if resource.RLIM_INFINITY not in (value, hard):
            value = min(value, hard)
        elif value == resource.RLIM_INFINITY:
            value = hard
        with kernel.step(f"rlimit {name}"):
            resource.setrlimit(kind, (value, value))


def _lock(prepared: Prepared) -> None:
    """Take away what is left, the calls of the kernel last."""
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    # A change of uid clears this, so it comes after; whoever it is about may be gone by now.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if select.select([prepared.server], [], [], 0)[0]:
        raise OSError("server: it has ended")
    if prepared.jail.level > 1:
        landlock.restrict(prepared.ruleset)
        os.close(prepared.ruleset)
    os.close(prepared.proc)
    os.close(prepared.server)
    if prepared.jail.level > 1:
        seccomp.install(seccomp.program(prepared.jail.level, os.getpid()))


def _first_to_go(proc: int) -> None:
    """Where memory runs out on the machine, let it be the code that is ended."""
    with kernel.step("oom_score_adj"):
        file = os.open("self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            os.write(file, b"1000")
        finally:
            os.close(file)


def _mapped(proc: int) -> int:
    """Bytes of address space that the child has before the code begins."""
    return int(_read(proc, "self/statm").split()[0]) * resource.getpagesize()


def _tasks(proc: int) -> int:
    """Threads on this machine: at least as many as the user has, whom the code stays."""
    return int(_read(proc, "loadavg").split()[3].split("/")[1])


def _read(proc: int, name: str) -> str:
    file = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    with open(file, encoding="utf-8", errors="replace") as opened:
        return opened.read()
