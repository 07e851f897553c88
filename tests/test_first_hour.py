"""The first hour goes as its page says, from an empty folder, in this order."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from agentrl.cli.entry import main

TEXT = (Path(__file__).parents[1] / "docs" / "first-hour.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    agentrl (.*)$", TEXT, re.MULTILINE)
TYPED = "".join(f"{line}\n" for line in re.findall(r"^    > (.*)$", TEXT, re.MULTILINE))
(ORDERS,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
SHORT = {
    "train": shlex.split("--n 4 --m 2 --steps 2 --tasks-per-step 1 --heldout.tasks 4"),
    "eval": shlex.split("--tasks 4"),
}
"""Makes a step of the walk short, behind the settings of the page."""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "orders.py").write_text(ORDERS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(TYPED))
    return tmp_path


def walk(capfd, short):
    """Every command of the page; what each said, by its first two words."""
    said = {}
    for command in COMMANDS:
        words = shlex.split(command)
        assert main([*words, *short.get(words[0], [])]) == 0, command
        said[" ".join(words[:2])] = capfd.readouterr().out
    return said


def test_it_can_be_walked_in_an_empty_folder(here, capfd):
    said = walk(capfd, SHORT)
    assert "training can run" in said["doctor"]
    assert "reward 1" in said["envs play"]
    assert "kept 2 of 6" in said["select --rewards"]
    assert "17 passed" in said["envs check"]
    assert "4 paired" in said["compare evals/before"]
    assert {"first", "orders"} <= set(said["runs"].split())
    assert (here / "runs/first/view.html").stat().st_size > 10_000
    assert (here / "runs/first/report.md").exists()


@pytest.mark.slow
def test_its_policy_gets_as_good_as_it_says(here, capfd):
    walk(capfd, {})
    run = json.loads((here / "runs/first/run.json").read_text(encoding="utf-8"))
    assert run["heldout"]["before"]["mean"] < 0.45
    assert run["heldout"]["after"]["mean"] > 0.8
    after = json.loads((here / "evals/after/summary.json").read_text(encoding="utf-8"))
    assert after["accuracy"]["low"] > 0.6
