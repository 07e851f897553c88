"""Seccomp: rules → a program of the kernel's packet filter, which answers every call.

In    RULES, the level, the own process number
Out   the program as bytes; `install`, after which it holds for good
Not   a view into memory: a filter sees numbers, so calls that hide them are refused whole
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from agentrl.sandbox import kernel
from agentrl.sandbox.syscalls import OWN_PID, RULES, WORD, Check, Rule, numbers

_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Places in what the kernel hands to the filter."""
_ALLOW, _KILL, _ERROR = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_X32 = 0x4000_0000
_MOST_INSTRUCTIONS = 4096
_TRIED = ("x86_64",)
_NAMESPACES = 0x7E02_0000
"""Every CLONE_NEW flag that clone takes."""


class Instruction(NamedTuple):
    """One instruction; a jump counts from the next one."""

    code: int
    then: int
    otherwise: int
    value: int


@cache
def program(level: int, pid: int, machine: str | None = None) -> bytes:
    """Assemble the filter for a policy's code.

    Args:
        level: of isolation; more is allowed at 3, where nothing that lasts can be written.
        pid: of the process that will be held, as it sees itself.
        machine: as `os.uname().machine` has it; this one by default.

    Raises:
        OSError: the kind of processor has no table.
    """
    rules = [rule for rule in RULES if rule.level <= level]
    return assemble(rules, _ERROR | errno.EPERM, machine or os.uname().machine, pid)


def docker_like(machine: str | None = None) -> bytes:
    """Assemble a filter that refuses what a plain container refuses: every new namespace."""
    mounting = "mount umount2 pivot_root mount_setattr open_tree move_mount fsopen fsmount"
    rules = [
        Rule(f"unshare setns chroot {mounting}", answer=errno.EPERM),
        Rule("clone", (Check(0, (0,), _NAMESPACES),)),
        Rule("clone3", answer=errno.ENOSYS),
    ]
    return assemble(rules, _ALLOW, machine or os.uname().machine)


def install(filter_program: bytes) -> None:
    """Let a filter answer the calling thread's calls, and those of all that it starts.

    Raises:
        OSError: the kernel has no filters, or privileges may still be gained.
    """
    room = ctypes.create_string_buffer(filter_program, len(filter_program))
    request = struct.pack("HxxxxxxQ", len(filter_program) // 8, ctypes.addressof(room))
    set_mode_filter = 1
    kernel.call("seccomp", set_mode_filter, 0, request)


def supported() -> None:
    """Say no where the tables have not been tried.

    Raises:
        OSError: a kind of processor on which the tests have not been run.
    """
    machine = os.uname().machine
    numbers(machine)
    if machine not in _TRIED or struct.calcsize("P") != 8:
        tried = ", ".join(_TRIED)
        raise OSError(
            errno.ENOSYS,
            f"seccomp: tried on {tried} with 64 bits only, and this is {machine} with "
            f"{8 * struct.calcsize('P')}: the table is written, its tests have not been run there",
        )


def assemble(rules: Iterable[Rule], default: int, machine: str, pid: int = 0) -> bytes:
    """Translate rules, in order, into a program.

    Args:
        rules: the first whose checks pass answers. Several may name one call.
        default: the answer where none does.
        machine: which numbers the calls have.
        pid: what OWN_PID stands for.
    """
    known = numbers(machine)
    code = _beginning(machine)
    for number, own in _by_number(rules, known).items():
        body = [line for rule in own for line in _rule(rule, pid)]
        if own[-1].checks:
            body.append(Instruction(_RETURN, 0, 0, _ERROR | errno.EPERM))
        code.append(Instruction(_EQUAL, 0, len(body), number))
        code += body
    code.append(Instruction(_RETURN, 0, 0, default))
    if len(code) > _MOST_INSTRUCTIONS:
        raise OSError(errno.E2BIG, f"seccomp: {len(code)} instructions")
    return b"".join(struct.pack("HBBI", *line) for line in code)


def _by_number(rules: Iterable[Rule], known: Mapping[str, int]) -> dict[int, list[Rule]]:
    found: dict[int, list[Rule]] = {}
    for rule in rules:
        for name in rule.names.split():
            if name in known:
                found.setdefault(known[name], []).append(rule)
    return found


def _beginning(machine: str) -> list[Instruction]:
    """Refuse calls of the other worlds that the processor runs: their numbers mean others."""
    code = [
        Instruction(_LOAD, 0, 0, _ARCHITECTURE),
        Instruction(_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        Instruction(_RETURN, 0, 0, _KILL),
        Instruction(_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        code.append(Instruction(_AT_LEAST, 0, 1, _X32))
        code.append(Instruction(_RETURN, 0, 0, _ERROR | errno.EPERM))
    return code


def _rule(rule: Rule, pid: int) -> list[Instruction]:
    """Answer if all checks pass, else fall through."""
    answer = _ALLOW if rule.answer is None else _ERROR | rule.answer
    code = [Instruction(_RETURN, 0, 0, answer)]
    for check in reversed(rule.checks):
        code = [*_check(check, pid, len(code)), *code]
    return code


def _check(check: Check, pid: int, rest: int) -> list[Instruction]:
    """Go on to the next `rest` instructions if the check passes, else jump over them."""
    values: Sequence[int] = [pid if value == OWN_PID else value for value in check.values]
    place = _ARGUMENTS + 8 * check.argument
    low = [Instruction(_LOAD, 0, 0, place)]
    if check.mask != WORD:
        low.append(Instruction(_AND, 0, 0, check.mask))
    for left in range(len(values) - 1, -1, -1):
        value = values[len(values) - 1 - left] & WORD
        low.append(Instruction(_EQUAL, left, 0 if left else rest, value))
    if not check.whole:
        return low
    high = [
        Instruction(_LOAD, 0, 0, place + 4),
        Instruction(_EQUAL, 0, len(low) + rest, 0),
    ]
    return high + low
