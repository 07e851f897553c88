"""The fork server: a clean process that forks a jailed child for each call.

In    what to be, as JSON on stdin; requests with descriptors over a socket of the host
Out   a child for each; on the call's own socket its pid, then how it ended
Not   a reader of code: a call's code goes past it into the child, so that no child can find
      another's in memory; nor a judge of time, which the host measures

Frames. Host to server, on the control socket: {limits}, with the call's socket, the pipe to
write to, and for a session its socket of cells. Server to host, on the call's socket:
{pid, started} with a pidfd, then {exit, signal, cpu, started, ended}; or {problem}. A host that
closes the call's socket ends the call.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from agentrl.sandbox import identity, interpreter, jail, kernel, seeding
from agentrl.sandbox.protocol import Frame, ProtocolError, close_all, receive, send
from agentrl.sandbox.result import MAX_CODE, Limits

CELLS, REPORT = 3, 4
"""Where a child holds its two sockets; the second is closed before any code runs."""
_HIGH = 16
"""No number from here on is one that a child is given."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A child that lives."""

    pid: int
    pidfd: int
    report: socket.socket
    started: float
    slot: int


def main() -> NoReturn:
    """Become what stdin says, then serve until the host is gone."""
    control = _reserve(int(sys.argv[1]))
    with open(0, closefd=False) as source:
        asked = json.load(source)
    step = "jail"
    try:
        prepared = _become(asked)
        step = "preload"
        _preload(asked["jail"]["folders"], asked["preload"])
        jail.seal(prepared)
    except BaseException as error:
        send(control, {"problem": f"{type(error).__name__}: {error}"[:2000], "step": step})
        os._exit(1)
    send(control, {"ready": os.getpid()})
    _Server(control, prepared, asked["jail"]["level"]).serve()
    os._exit(0)


def _reserve(control: int) -> socket.socket:
    """Keep the numbers that children put their sockets on from being given to anything else."""
    sock = socket.socket(fileno=fcntl.fcntl(control, fcntl.F_DUPFD_CLOEXEC, _HIGH))
    for number in (CELLS, REPORT):
        os.dup2(0, number, inheritable=False)
    if control not in (CELLS, REPORT):
        os.close(control)
    return sock


def _become(asked: Mapping[str, Any]) -> jail.Prepared:
    """Enter the part of the jail that all children share."""
    parent = os.getppid()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sys.path.remove(asked["home"])
    held: dict[str, Any] = dict(asked["jail"])
    held |= {name: tuple(value) for name, value in held.items() if isinstance(value, list)}
    if os.geteuid() == 0:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            held["uid"] = identity.spare_uid(os.getpid(), file.read())
    prepared = jail.prepare(jail.Jail(**held))
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    # Last, as a change of who one is clears it; by now the host may be gone.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise OSError("the host has ended")
    return prepared


def _preload(path: list[str], names: list[str]) -> None:
    """Import what children shall find imported, and leave nothing of this project behind."""
    sys.path += path
    seeding.install()
    for name in names:
        importlib.import_module(name)
    for name in [n for n in sys.modules if n.partition(".")[0] == "agentrl"]:
        del sys.modules[name]
    sys.argv = [""]
    gc.collect()
    gc.freeze()


class _Server:
    """One thread, one wait: requests, ends of children, hosts that lost interest."""

    def __init__(self, control: socket.socket, prepared: jail.Prepared, level: int) -> None:
        self.control = control
        self.prepared = prepared
        self.level = level
        self.ready = select.epoll()
        self.ready.register(control, select.EPOLLIN)
        self.by_pidfd: dict[int, _Call] = {}
        self.by_report: dict[int, _Call] = {}
        self.slots: set[int] = set()

    def serve(self) -> None:
        while True:
            ready = {fd for fd, _ in self.ready.poll()}
            asked = self.control.fileno() in ready
            for fd in ready:
                if fd in self.by_pidfd:
                    self.ended(self.by_pidfd[fd])
                elif fd in self.by_report:
                    # Nobody waits for this call any more.
                    signal.pidfd_send_signal(self.by_report[fd].pidfd, signal.SIGKILL)
                    self.ready.unregister(fd)
            # Requests last: a new call may get numbers that old news is about.
            if asked and not self.take():
                return self.end()

    def take(self) -> bool:
        """One request; False when the host is gone."""
        try:
            frame = receive(self.control)
        except ProtocolError:
            return True
        if frame is None:
            return False
        if len(frame.fds) in (2, 3):
            self.fork(frame)
        close_all(frame.fds)
        return True

    def end(self) -> None:
        """The host is gone: nobody may stay."""
        for call in self.by_pidfd.values():
            signal.pidfd_send_signal(call.pidfd, signal.SIGKILL)

    def fork(self, frame: Frame) -> None:
        report = socket.socket(fileno=os.dup(frame.fds[0]))
        slot = next(n for n in range(len(self.slots) + 1) if n not in self.slots)
        started = time.monotonic()
        try:
            if slot >= identity.SLOTS:
                raise OSError(f"{slot} calls and sessions at once are the most")
            pid = jail.fork(self.prepared)
        except OSError as error:
            _tell(report, {"problem": f"fork: {error}"})
            report.close()
            return
        if pid == 0:
            _child(self.prepared, slot, frame)
        call = _Call(pid, os.pidfd_open(pid), report, started, slot)
        self.slots.add(slot)
        self.by_pidfd[call.pidfd] = self.by_report[report.fileno()] = call
        self.ready.register(call.pidfd, select.EPOLLIN)
        self.ready.register(report, select.EPOLLRDHUP)
        _tell(report, {"pid": pid, "started": started}, call.pidfd)

    def ended(self, call: _Call) -> None:
        """Say how a child ended, and forget it."""
        _, status, used = os.wait4(call.pid, 0)
        killed = os.WIFSIGNALED(status)
        end = {
            "exit": None if killed else os.WEXITSTATUS(status),
            "signal": os.WTERMSIG(status) if killed else None,
            "cpu": used.ru_utime + used.ru_stime,
            "started": call.started,
            "ended": time.monotonic(),
        }
        _tell(call.report, end)
        del self.by_pidfd[call.pidfd], self.by_report[call.report.fileno()]
        self.slots.remove(call.slot)
        # Closing takes a descriptor out of the wait, unless a child holds it still.
        for fd in (call.pidfd, call.report.fileno()):
            with suppress(OSError):
                self.ready.unregister(fd)
        os.close(call.pidfd)
        call.report.close()
        if self.level < 2:
            self.sweep()

    def sweep(self) -> None:
        """Where code may fork, end what it left behind; orphans become children of this process."""
        for _ in range(100):
            with open(f"/proc/self/task/{os.getpid()}/children") as children:
                pids = {int(pid) for pid in children.read().split()}
            strays = pids - {call.pid for call in self.by_pidfd.values()}
            if not strays:
                return
            for pid in strays:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _tell(report: socket.socket, header: Mapping[str, Any], *fds: int) -> None:
    """Tell the host; a call that nobody listens to must hold up no other."""
    with suppress(OSError):
        send(report, header, fds=fds, flags=socket.MSG_DONTWAIT)


def _child(prepared: jail.Prepared, slot: int, frame: Frame) -> NoReturn:
    """The life of a child; nothing leaves it but by exit."""
    code = 1
    try:
        session = len(frame.fds) == 3
        text = b"" if session else os.read(frame.fds[0], 2 * MAX_CODE)
        _arrange(frame.fds)
        _enter(prepared, slot, Limits(**frame.header["limits"]), session)
        seeding.reseed()
        code = interpreter.run_cells(CELLS) if session else interpreter.run_script(text)
    finally:
        os._exit(code)


def _enter(prepared: jail.Prepared, slot: int, limits: Limits, session: bool) -> None:
    """Be locked in, or say why not; afterwards the host can't be told anything."""
    try:
        jail.enter(prepared, slot, limits, (CELLS, REPORT) if session else (REPORT,))
    except BaseException as error:
        with socket.socket(fileno=REPORT) as report:
            _tell(report, {"problem": f"{type(error).__name__}: {error}"[:2000]})
        os._exit(1)
    os.close(REPORT)


def _arrange(fds: tuple[int, ...]) -> None:
    """Put what a child keeps where it is known to be."""
    # Its own: the flags of a shared one would tell the next child something.
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    # First out of the way: what is received may itself lie on a number that is wanted.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH) for fd in fds]
    os.dup2(null, 0)
    os.close(null)
    for wanted, fd in zip((REPORT, 1, CELLS), high, strict=False):
        os.dup2(fd, wanted)
    os.dup2(1, 2)
