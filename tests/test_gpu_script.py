"""The GPU benchmark runs where only numpy, torch, transformers and peft are, and ends with JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

BARE = """
import sys

class Bare:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("gymnasium", "vllm", "pydantic"):
            raise ImportError(f"{name} is not on that machine")

sys.meta_path.insert(0, Bare())
sys.path[:0] = ["benchmarks", "."]
"""


def _run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BARE + code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_every_part_runs_in_small_without_what_that_machine_lacks():
    printed = _run("import gpu; sys.argv[1:] = ['--small']; gpu.main()")
    found = json.loads(printed.splitlines()[-1])
    tables = found["tables"]
    assert set(tables) == {"made", "numerics", "peak", "step", "retry"}
    assert [row for rows in tables.values() for row in rows if row.get("note")] == []
    assert all(row["parameters"] == row["predicted"] for row in tables["made"])
    assert all(row["predicted GiB"] > 0 for row in tables["peak"])
    assert {row["model"] for row in tables["step"]} == {row["model"] for row in tables["made"]}
    assert tables["numerics"][0]["as exact"]
    (retry,) = tables["retry"]
    assert retry["retries"] > 0
    assert retry["loss off by"] < 1e-5
    assert retry["gradient off by"] < 1e-3
    for title, rows in tables.items():
        heading = printed.split(f"\n{title}\n")[1].splitlines()[0]
        assert set(heading.split()) >= {word for name in rows[0] for word in name.split()}


@pytest.mark.slow
def test_a_part_that_fails_or_has_no_time_left_is_a_row_that_says_so():
    code = """
import time
import gpu

def broken():
    raise ValueError("it broke\\nin two lines")

found = gpu.Findings(time.monotonic() + 1000)
found.part("peak", lambda: {"seconds": 1.0}, model="a")
found.part("peak", broken, model="b")
found.ends = time.monotonic()
found.part("peak", lambda: {"seconds": 2.0}, model="c")
found.show({"device": "none"})
found.show({"device": "none"})
"""
    printed = _run(code)
    peak = json.loads(printed.splitlines()[-1])["tables"]["peak"]
    assert peak[0] == {"model": "a", "seconds": 1.0}
    assert peak[1] == {"model": "b", "note": "failed: ValueError: it broke"}
    assert peak[2]["note"].startswith("no time")
    assert printed.count("failed: ValueError") == 2


@pytest.mark.slow
def test_what_there_is_gets_printed_when_the_time_is_over():
    code = """
import threading
import gpu

gpu.measure = lambda kind, scale, device, findings: threading.Event().wait(60)
sys.argv[1:] = ["--small", "--seconds", "0.2"]
gpu.main()
"""
    found = json.loads(_run(code).splitlines()[-1])
    assert "time was over" in found["note"]
