"""What an attack could harm: a host with secrets, listeners, files and a neighbour to watch.

In    nothing: it is made in a temporary folder, under whoever runs it
Out   Surroundings: what attackers are told, the secrets they must not bring back, and the
      harm that was done
Not   a second opinion on the attacker's own proof: that is judged by `attack`
"""

from __future__ import annotations

import os
import platform
import resource
import secrets
import site
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from agentrl.sandbox.result import Limits
from tests.attack_numbers import NEVER, numbers, sweep

MiB = 1 << 20
GROWTH = 96 * MiB
"""What the host may hold more at its peak, with several attacks at once."""
ENVIRONMENT = "AGENTRL_ATTACKED_SECRET"
REPO = Path(__file__).parents[1]
_OUTSIDE = ("/etc/attack", "/attack", "/usr/lib/attack", "/var/tmp/attack", "/dev/attack")


class Surroundings:
    """A host to attack; leave its `with` block to have it taken down."""

    def __init__(self, limits: Limits, listed: frozenset[int], scratch_at: str) -> None:
        """Make it, for calls with these limits and system calls."""
        self._stack = ExitStack()
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self.secrets = [f"hidden-{kind}-{secrets.token_hex(8)}" for kind in ("file", "env", "mem")]
        (self.folder / "canary").write_text(self.secrets[0])
        (self.folder / "canary").chmod(0o644)
        (self.folder / "spare").write_text("spare")
        self.folder.chmod(0o777)
        os.environ[ENVIRONMENT] = self.secrets[1]
        self._stack.callback(os.environ.pop, ENVIRONMENT)
        self.victim = subprocess.Popen(["sleep", "3600"], start_new_session=True)
        self._stack.callback(self._end_victim)
        self._listeners = self._listen()
        self._facts = self._tell(limits, listed, scratch_at)
        self._before = self._state()
        self._swollen = _reset_peak()

    def __enter__(self) -> Surroundings:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def facts(self, word: str, *, bare: bool = False) -> dict[str, Any]:
        """What an attacker is told; the word only backwards, so that no traceback shows it."""
        return {**self._facts, "word": word[::-1], "outside": [] if bare else _OUTSIDE}

    def harm(self) -> list[str]:
        """What was done to the host since it was made."""
        found = [f"{name} was reached" for name, it in self._listeners.items() if _reached(it)]
        if self.victim.poll() is not None:
            found.append(f"the neighbour died: {self.victim.returncode}")
        now = self._state()
        for name, before in self._before.items():
            if now.get(name) != before:
                found.append(f"{name}: was {before}, is {now.get(name)}")
        found += [f"{name} is new" for name in now.keys() - self._before.keys()]
        if _PEAK and (grown := _peak() - self._swollen) > GROWTH:
            found.append(f"the host grew by {grown // MiB} MiB")
        return found

    def _tell(self, limits: Limits, listed: frozenset[int], scratch_at: str) -> dict[str, Any]:
        machine = platform.machine()
        path = str(self.folder)
        return {
            "machine": machine,
            "numbers": numbers(machine),
            "never": NEVER,
            "unlisted": sweep(machine, listed) if listed else [],
            "canary": f"{path}/canary",
            "spare": f"{path}/spare",
            "folder": path,
            "env": ENVIRONMENT,
            "pid": os.getpid(),
            "victim": self.victim.pid,
            "repo": str(REPO),
            "site": site.getsitepackages()[0],
            "python": sys.executable,
            "scratch_at": scratch_at or "/scratch",
            "memory": limits.memory,
            "scratch": limits.scratch,
            "processes": limits.processes + _others(scratch_at),
            "files": limits.files,
            "unix": f"{path}/unix",
            "dgram": f"{path}/dgram",
            "abstract": f"agentrl-{self.secrets[0][-8:]}",
            "abstract_dgram": f"agentrl-dgram-{self.secrets[0][-8:]}",
            "tcp": self._listeners["tcp"].getsockname()[1],
            "udp": self._listeners["udp"].getsockname()[1],
        }

    def _listen(self) -> dict[str, socket.socket]:
        name = self.secrets[0][-8:]
        kinds = {
            "tcp": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            "udp": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            "unix": (socket.AF_UNIX, socket.SOCK_STREAM, f"{self.folder}/unix"),
            "dgram": (socket.AF_UNIX, socket.SOCK_DGRAM, f"{self.folder}/dgram"),
            "abstract": (socket.AF_UNIX, socket.SOCK_STREAM, f"\0agentrl-{name}"),
            "abstract dgram": (socket.AF_UNIX, socket.SOCK_DGRAM, f"\0agentrl-dgram-{name}"),
        }
        listeners = {}
        for kind, (family, way, address) in kinds.items():
            listener = self._stack.enter_context(socket.socket(family, way))
            listener.bind(address)
            if way == socket.SOCK_STREAM:
                listener.listen()
            listener.setblocking(False)
            if isinstance(address, str) and address.startswith("/"):
                Path(address).chmod(0o777)
            listeners[kind] = listener
        return listeners

    def _state(self) -> dict[str, Any]:
        """All of it that must stay as it is."""
        found: dict[str, Any] = {"mounts": len(Path("/proc/self/mountinfo").read_bytes())}
        if self.victim.poll() is None:
            found |= _state_of(self.victim.pid)
        for path in [self.folder, *sorted(self.folder.rglob("*"))]:
            it = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(it.st_mode) else b""
            xattrs = os.listxattr(path, follow_symlinks=False)
            found[f"{path.name} of {path.parent}"] = (
                oct(it.st_mode),
                it.st_uid,
                it.st_nlink,
                it.st_mtime_ns,
                it.st_ino,
                content,
                xattrs,
            )
        for outside in _OUTSIDE:
            if os.path.lexists(outside):
                found[outside] = True
        return found

    def _end_victim(self) -> None:
        self.victim.kill()
        self.victim.wait()


def _others(scratch_at: str) -> int:
    """Threads that are not told apart from those of the code: of the user's other processes.

    Code that has a folder of its own also has a user of its own, as has that of root.
    """
    if scratch_at or os.getuid() == 0:
        return 0
    margin = 64
    return margin + int(Path("/proc/loadavg").read_text().split("/")[1].split()[0])


def descendants(pid: int) -> set[int]:
    """All processes below one."""
    children: dict[int, set[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), set()).add(int(entry.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), set()) - found
        found |= below
        waiting += below
    return found


def _state_of(pid: int) -> dict[str, Any]:
    letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return {
        "the neighbour's processors": sorted(os.sched_getaffinity(pid)),
        "the neighbour's priority": os.getpriority(os.PRIO_PROCESS, pid),
        "the neighbour's limits": resource.prlimit(pid, resource.RLIMIT_NOFILE),
        "the neighbour stopped": letter in "Tt",
    }


def _reached(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_STREAM:
            listener.accept()[0].close()
        else:
            listener.recv(1)
    except BlockingIOError:
        return False
    return True


_PEAK = Path("/proc/self/clear_refs").exists()


def _reset_peak() -> int:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return _peak()


def _peak() -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) * 1024
