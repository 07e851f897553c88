"""Examine: every check of this machine, in order.

In    the folder where runs are to be written
Out   findings; a check that breaks is one too
Not   longer than a few seconds, nor anything that stays behind
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from agentrl import machine
from agentrl.doctor import devices, packages, surroundings
from agentrl.doctor.finding import Check, Finding
from agentrl.doctor.memory import memory
from agentrl.errors import AgentRLError, RunError, blame


def examine(out: str) -> Iterator[Finding]:
    """Look at everything."""
    return findings(_checks(out))


def findings(checks: Iterable[tuple[str, Check]]) -> Iterator[Finding]:
    """What the checks find, each in its turn."""
    for name, check in checks:
        try:
            with blame(RunError, name):
                found = list(check())
        except AgentRLError as error:
            fix = "Please report this line."
            found = [Finding(name, "warn", f"could not be looked at ({error})", fix)]
        yield from found


def _checks(out: str) -> tuple[tuple[str, Check], ...]:
    asked = packages.requirements()
    return (
        ("python", packages.python),
        ("packages", lambda: packages.of_packages(asked, packages.version_of)),
        ("torch", packages.torch_and_engine),
        ("vllm", _vllm),
        ("accelerator", _accelerators),
        ("threads", lambda: devices.of_threads(os.environ, machine.cores())),
        ("memory", lambda: surroundings.of_memory(memory())),
        ("disk", lambda: surroundings.of_disk(out)),
        ("clock", _clock),
        ("sandbox", lambda: devices.of_sandbox(_level)),
        ("extras", lambda: packages.of_extras(asked, packages.version_of)),
    )


def _vllm() -> Iterable[Finding]:
    # By name: what it loads may be what is broken.
    known = importlib.import_module("agentrl.engines.vllm_api").KNOWN
    return packages.of_vllm(packages.version_of, known, machine.has_gpu())


def _accelerators() -> Iterable[Finding]:
    return devices.of_accelerators(importlib.import_module("torch"), machine.has_gpu())


def _clock() -> Iterable[Finding]:
    newest = max(path.stat().st_mtime for path in Path(__file__).parents[1].glob("*.py"))
    zone = os.environ.get("TZ", "")
    return surroundings.of_clock(surroundings.Clocks(zone=zone), newest)


def _level() -> int:
    with importlib.import_module("agentrl.sandbox").Sandbox(packages=()) as box:
        level: int = box.level
    return level
