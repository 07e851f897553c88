"""All attacks against one way to hold code, in one process: `python -m tests.attack_driver`.

In    a level, a user, a filter like a container's, names of attacks
Out   one line of JSON: what each attack came to, and the harm done to the host
Not   an assertion: what must hold is said in test_attacks.py
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentrl.errors import SandboxUnavailable
from agentrl.sandbox import Limits, Result, Sandbox, seccomp, syscalls
from tests.attack import Attack, End, judge, load
from tests.attack_host import REPO, Surroundings, descendants

MiB = 1 << 20
LIMITS = Limits(
    cpu=1.0,
    wall=5.0,
    memory=256 * MiB,
    output_most=1 * MiB,
    scratch=8 * MiB,
    processes=32,
    files=64,
)
AT_ONCE = 6
UID = 61_000
"""An ordinary user who owns nothing here."""

Runner = Callable[[Attack, Sequence[str]], list[Any]]


def report(level: int | None, names: Sequence[str]) -> dict[str, Any]:
    """Run attacks against a sandbox of a level and tell how they went."""
    attacks = [attack for name, attack in load().items() if not names or name in names]
    try:
        sandbox = Sandbox(limits=LIMITS, level=level, slots=4 * AT_ONCE)
        held = sandbox.level
    except SandboxUnavailable as error:
        return {"unavailable": str(error)}
    with sandbox:
        at = sandbox.run("import os; print(os.getcwd())").stdout.strip()
        with Surroundings(LIMITS, _listed(), "" if at == "/" else at) as it:
            expected = descendants(os.getpid())
            ends = run_all(attacks, it, lambda attack, codes: held_in(sandbox, attack, codes))
            time.sleep(0.5)
            harm = it.harm()
            if left := descendants(os.getpid()) - expected:
                harm.append(f"processes were left: {left}")
        return {"level": held, "ends": {k: asdict(v) for k, v in ends.items()}, "harm": harm}


def run_all(
    attacks: Sequence[Attack], host: Surroundings, runner: Runner, *, bare: bool = False
) -> dict[str, End]:
    """Several attacks at once; what each came to."""

    def one(attack: Attack) -> End:
        word = secrets.token_hex(8)
        results = runner(attack, attack.codes(host.facts(word, bare=bare)))
        return judge(attack, results, word, host.secrets, LIMITS.wall)

    # The long ones first, so that the short ones fill the gaps.
    ordered = sorted(attacks, key=lambda attack: not attack.burns)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip([a.name for a in ordered], pool.map(one, ordered), strict=True))


def held_in(sandbox: Sandbox, attack: Attack, codes: Sequence[str]) -> list[Result]:
    """Run the parts of one attack in a sandbox, as its kind says."""
    if attack.kind == "together":
        with ThreadPoolExecutor(len(codes)) as pool:
            return list(pool.map(sandbox.run, codes))
    if attack.kind == "session":
        with sandbox.session() as session:
            return [session.run(code) for code in codes]
    if attack.kind == "sessions":
        with ExitStack() as stack:
            sessions = [stack.enter_context(sandbox.session()) for _ in codes]
            return [session.run(code) for session, code in zip(sessions, codes, strict=True)]
    return [sandbox.run(code) for code in codes]


def unheld(attack: Attack, codes: Sequence[str]) -> list[Result]:
    """Run an attack in a process of one's own, which holds nothing back."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for code in codes:
            begun = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-c", code],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=30,
                check=False,
                close_fds=False,
            )
            text = done.stdout.decode("utf-8", "replace")
            status = "ok" if done.returncode == 0 else "error"
            results.append(Result(status, text, time.monotonic() - begun, 0))
    return results


def _listed() -> frozenset[int]:
    """Numbers of the calls that the jail lets through; they are left out of the sweep."""
    known = syscalls.numbers(os.uname().machine)
    named = {name for rule in syscalls.RULES for name in rule.names.split()}
    return frozenset(known[name] for name in named if name in known)


def become_ordinary() -> None:
    """Go on as a user without rights, who can still read the interpreter and this checkout.

    Where they lie in a folder that only root may enter, a folder of the same name is laid over
    it, in a mount namespace of this process alone.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x00020000) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    needed = {Path(sys.base_prefix), Path(sys.prefix), REPO}
    for top in sorted({_closed(path) for path in needed} - {None}, key=str):
        assert top is not None
        below = sorted(path for path in needed if _closed(path) == top)
        with tempfile.TemporaryDirectory() as aside:
            subprocess.run(["mount", "--rbind", str(top), aside], check=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "x", str(top)], check=True)
            for path in below:
                path.mkdir(parents=True)
                inside = Path(aside) / path.relative_to(top)
                subprocess.run(["mount", "--rbind", str(inside), str(path)], check=True)
            subprocess.run(["umount", "-l", aside], check=True)
    os.setgroups([])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)
    os.environ.update(HOME="/tmp", TMPDIR="/tmp")


def _closed(path: Path) -> Path | None:
    """The first folder on the way to a path that others may not enter."""
    for folder in [*reversed(path.parents), path]:
        if folder.is_dir() and folder.stat().st_mode & 0o005 != 0o005:
            return folder
    return None


def main() -> None:
    """Read the command line; write the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--level", type=int)
    parser.add_argument("--ordinary", action="store_true")
    parser.add_argument("--container", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    if given.ordinary:
        become_ordinary()
        # Begin anew: a process that changed its user hides itself more than an ordinary one.
        rest = [word for word in sys.argv[1:] if word != "--ordinary"]
        os.execv(sys.executable, [sys.executable, "-m", "tests.attack_driver", *rest])
    if given.container:
        no_new_privileges = 38
        ctypes.CDLL(None).prctl(no_new_privileges, 1, 0, 0, 0)
        seccomp.install(seccomp.docker_like())
    sys.stdout.write(json.dumps(report(given.level, given.names)) + "\n")


if __name__ == "__main__":
    main()
