"""Sandboxes for tests: as strict as this machine allows, or the test is skipped."""

import os
import time
from pathlib import Path

import pytest

from agentrl.errors import SandboxUnavailable
from agentrl.sandbox import Sandbox


def box(**options):
    """A sandbox that runs, of small packages."""
    made = Sandbox(**{"packages": (), **options})
    try:
        assert made.level
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    return made


def server_of(made):
    """The pid of its fork server."""
    return made._local._server.pid


def children(pid):
    """The processes that a process has started and not reaped."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descendants():
    """All processes below this one."""
    found = [os.getpid()]
    for pid in found:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            found += [int(one) for one in task.read_text().split()]
    return found[1:]


def gone(pid):
    """Whether a process ends soon."""
    return soon(lambda: not Path(f"/proc/{pid}").exists())


def soon(true):
    """Whether something comes true within what a busy machine may need."""
    deadline = time.monotonic() + 20
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def state(pid):
    """The letter of a process's state: R runs, S sleeps, T is stopped, Z is a zombie."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
