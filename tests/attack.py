"""Attacks: codes that try to leave the sandbox, and who is believed about it.

In    files of tests/attacks: Python, in front of which the harness puts `pwn`, `call`, `works`
      and HOST, what the attacker is told about the host
Out   Attack, its codes, and the verdict on what came back
Not   run here: what runs them is handed in

The comments at the top of a file say

    # ends: STATUS ...      the ways it may end; without it, all but sandbox_failure
    # kind: session         its parts are cells; `sessions`: of one session each, both open;
                            `together`: calls at the same time. Else calls, one after the other
    # bare: wins            harmless enough to be run without a sandbox, where it succeeds
    # burns: yes            it uses its time up
    # made: yes             the file is run here and leaves the codes in CODES
    # instrument: yes       it must succeed
    # may: NAME ...         exceptions of Python that are no mistake of the attack itself
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("attacks")

_PROLOGUE = """\
import os
HOST = __import__("json").loads({host!r})
def pwn(how):
    os.write(1, f"PWN {{HOST['word'][::-1]}} {{how}}\\n".encode("utf-8", "replace"))
def works(do, *arguments, **named):
    try:
        do(*arguments, **named)
    except BaseException:
        return False
    return True
def call(name, *arguments):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    number = HOST["numbers"][name] if isinstance(name, str) else name
    value = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])
    if value == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return value
"""

# An attack that fails by one of these has a mistake of its own, and shows nothing.
_MISTAKES = ("AttributeError", "ImportError", "IndexError", "KeyError", "ModuleNotFoundError")
_MISTAKES += ("NameError", "SyntaxError", "TypeError", "UnboundLocalError")


@dataclass(frozen=True, slots=True)
class Attack:
    """One way to try it."""

    name: str
    title: str
    parts: tuple[str, ...]
    kind: str = "calls"
    ends: tuple[str, ...] = ()
    bare: bool = False
    burns: bool = False
    made: bool = False
    instrument: bool = False
    may: tuple[str, ...] = ()

    def codes(self, host: Mapping[str, Any]) -> list[str]:
        """What is given to the sandbox, one for each part."""
        if self.made:
            space: dict[str, Any] = {}
            exec(self.parts[0], space)
            return list(space["CODES"])
        prologue = _PROLOGUE.format(host=json.dumps(host))
        return [prologue + part for part in self.parts]


@dataclass(frozen=True, slots=True)
class End:
    """What an attack came to: its statuses, and what is wrong with them."""

    statuses: tuple[str, ...]
    won: tuple[str, ...]
    """Lines of proof that it succeeded, or a secret that came back."""
    wrong: tuple[str, ...]
    """Endings that it must not have; mistakes of the attack itself."""
    seconds: float


def load(folder: Path = FOLDER) -> dict[str, Attack]:
    """All attacks by name."""
    return {path.stem: _read(path) for path in sorted(folder.glob("*.py"))}


def _read(path: Path) -> Attack:
    text = path.read_text()
    said = dict(re.findall(r"^# (\w+): (.+)$", text, flags=re.M))
    title = re.match(r'"""(.+?)"""', text, flags=re.S)
    assert title, f"{path}: an attack begins with what it tries"
    return Attack(
        path.stem,
        title[1],
        tuple(text.split("# --- then\n")),
        said.get("kind", "calls"),
        tuple(said.get("ends", "").split()),
        said.get("bare") == "wins",
        "burns" in said,
        "made" in said,
        "instrument" in said,
        tuple(said.get("may", "").split()),
    )


def judge(
    attack: Attack, results: Sequence[Any], word: str, secrets: Sequence[str], wall: float
) -> End:
    """Whether it succeeded, by its own proof or by a secret in what it printed."""
    text = "\n".join(result.stdout for result in results)
    won = [line for line in text.split("\n") if f"PWN {word}" in line]
    won += [f"printed the secret {secret[:12]}" for secret in secrets if secret in text]
    wrong = [
        complaint
        for number, result in enumerate(results)
        for complaint in _complaints(attack, number, result, wall)
    ]
    seconds = sum(result.seconds for result in results)
    return End(tuple(r.status for r in results), tuple(won), tuple(wrong), seconds)


def _complaints(attack: Attack, number: int, result: Any, wall: float) -> list[str]:
    found = []
    status = result.status
    if status == "timeout_wall" and result.host_overload and "timeout_cpu" in attack.ends:
        status = "timeout_cpu"
    if status == "sandbox_failure" or (attack.ends and status not in attack.ends):
        found.append(f"part {number} must not end so: {result}"[:2000])
    if result.seconds > wall + 3:
        found.append(f"part {number} took {result.seconds:.1f} s, with {wall} s of wall time")
    last = result.stdout.rstrip().rpartition("\n")[2].split(":")[0]
    if not attack.made and last in _MISTAKES and last not in attack.may:
        found.append(f"part {number} is mistaken: {result.stdout[-300:]}")
    return found
