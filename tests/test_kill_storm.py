"""Whatever moment a run is killed at, it goes on to the end that it would have had."""

import json
import os
import subprocess
import sys

import pytest


def stormed(out, kills):
    done = subprocess.run(
        [sys.executable, "-m", "tests.kill_storm", "--kills", str(kills), "--out", str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["kills"] >= kills
    return found


def test_a_run_killed_five_times_ends_as_the_unbroken_run(tmp_path):
    assert stormed(tmp_path / "storm", 5)["inside"] >= 1


@pytest.mark.slow
def test_a_run_killed_fifty_times_ends_as_the_unbroken_run(tmp_path):
    assert stormed(tmp_path / "storm", 50)["inside"] >= 10
