"""Attacks on the sandbox, at every level and as every user that this machine has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from tests.attack import Attack, judge, load
from tests.attack_driver import LIMITS, run_all, unheld
from tests.attack_host import REPO, Surroundings

ROOT = sys.platform == "linux" and os.getuid() == 0
ATTACKS = load()
NAMES = tuple(ATTACKS)
QUICK = tuple(name for name, attack in ATTACKS.items() if not attack.burns)
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
"""Where an attack uses its time up, the limits hold at every level in the same way."""

WAYS = {
    "namespaces": ["--level", "3"],
    "landlock": ["--level", "2"],
    "container": ["--container"],
    "namespaces, ordinary user": ["--level", "3", "--ordinary"],
    "landlock, ordinary user": ["--level", "2", "--ordinary"],
    "container, ordinary user": ["--container", "--ordinary"],
}
"""How the code is held, and by whom."""
LEVELS = {"namespaces": 3, "landlock": 2, "container": 2}


def reported(way: str, names: Sequence[str]) -> dict[str, Any]:
    """Have a process of its own run attacks in one way."""
    if "--ordinary" in WAYS[way] and not ROOT:
        pytest.skip("only root can become somebody else; the other ways are this user's")
    command = [sys.executable, "-m", "tests.attack_driver", *WAYS[way], *names]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip(f"this machine lets root not prepare another user: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr[-2000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "unavailable" in report:
        pytest.skip(report["unavailable"])
    return report


def check(way: str, names: Sequence[str]) -> None:
    """All attacks were tried, none succeeded, and the host is as it was."""
    report = reported(way, names)
    assert report["level"] == LEVELS[way.split(",")[0]]
    assert report["ends"].keys() == set(names)
    won = {name: end["won"] for name, end in report["ends"].items() if end["won"]}
    instruments = {name for name in names if ATTACKS[name].instrument}
    assert {name: lines for name, lines in won.items() if name not in instruments} == {}
    assert instruments <= won.keys()
    assert {name: end["wrong"] for name, end in report["ends"].items() if end["wrong"]} == {}
    assert report["harm"] == []


@needs_linux
def test_every_attack_fails_in_the_way_this_process_would_hold_code():
    check("namespaces", NAMES)


@needs_linux
@pytest.mark.parametrize("way", ["container", "namespaces, ordinary user"])
def test_quick_attacks_fail_in_a_container_and_under_an_ordinary_user(way):
    check(way, QUICK)


@needs_linux
@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_every_attack_fails_in_every_way(way):
    check(way, NAMES)


@needs_linux
def test_without_a_sandbox_the_harmless_attacks_succeed_and_are_found_out():
    bare = [attack for attack in ATTACKS.values() if attack.bare]
    with Surroundings(LIMITS, frozenset(), "") as host:
        ends = run_all(bare, host, unheld, bare=True)
        harm = host.harm()
    assert len(bare) > 20
    silent = {name for name, end in ends.items() if not end.won}
    # A datagram, a connection and a signal by a file's owner leave their marks on the host only.
    assert silent <= {"signal_by_owner_of_file"}
    for mark in ("the neighbour died", "tcp was reached", "udp was reached", "unix was reached"):
        assert any(mark in line for line in harm), (mark, harm)
    for mark in ("dgram was reached", "abstract was reached", "canary", "daemon"):
        assert any(mark in line for line in harm), (mark, harm)


@pytest.mark.parametrize("text", ["PWN {word} how", "x\nPWN {word} how\nx", "the secret hidden-x"])
def test_a_proof_or_a_secret_in_the_output_counts_as_success(text):
    class Came:
        stdout, status, seconds = text.format(word="w0rd"), "ok", 0.1

    assert judge(Attack("a", "t", ("",)), [Came], "w0rd", ["hidden-x"], 5.0).won


@pytest.mark.parametrize(
    ("status", "text", "seconds"),
    [
        ("sandbox_failure", "", 0.1),
        ("killed", "", 0.1),
        ("ok", "", 9.0),
        ("ok", "Traceback\nNameError: name 'x'", 0.1),
    ],
)
def test_an_ending_that_was_not_foreseen_is_wrong(status, text, seconds):
    class Came:
        problem, host_overload = "", False

    Came.stdout, Came.status, Came.seconds = text, status, seconds
    assert judge(Attack("a", "t", ("",), ends=("ok",)), [Came], "w0rd", [], 5.0).wrong
