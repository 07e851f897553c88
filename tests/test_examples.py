"""The examples are complete: each does what its page says, at least in small."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from agentrl import tomlfile
from agentrl.cli.entry import main
from agentrl.config import TrainConfig

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
FILES = sorted(EXAMPLES.rglob("*.toml"))


@pytest.fixture
def here(monkeypatch):
    monkeypatch.chdir(ROOT)


def commands(page, name):
    text = (EXAMPLES / page).read_text(encoding="utf-8")
    return [shlex.split(line) for line in re.findall(rf"^    agentrl ({name} .*)$", text, re.M)]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.parent.name)
def test_settings_of_an_example_are_settings(path):
    TrainConfig.model_validate(tomlfile.read(path).values)


def test_the_environment_in_one_file_passes_its_checks(here, capsys):
    found = main(["envs", "check", "examples/guess_number.py:GuessNumber", "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert found == 0
    assert {row["status"] for row in checks} == {"passed"}


def test_the_plan_of_one_gpu_says_what_its_page_says(here, capsys):
    fits, does_not = commands("one_gpu/README.md", "plan")
    assert main(fits) == 0
    assert "which fits" in capsys.readouterr().out
    assert main(does_not) == 3
    assert "it fits with" in capsys.readouterr().out


def test_its_settings_are_shown_without_gpu_or_weights(here, capsys):
    (words, _) = commands("one_gpu/README.md", "train")
    assert main(words) == 0
    told = capsys.readouterr().out
    assert re.search(r"model\.lora_rank +32 +examples/one_gpu/run\.toml:\d+", told)


def test_rules_are_compared_task_by_task(tmp_path):
    spec = importlib.util.spec_from_file_location("compare_rules", EXAMPLES / "compare_rules.py")
    rules = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rules)
    words = ["--steps", "1", "--seeds", "1", "--tasks", "8", "--out", str(tmp_path)]
    script = [sys.executable, str(EXAMPLES / "compare_rules.py"), *words]
    done = subprocess.run(script, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split()[0] == "rule"
    assert [row.split()[0] for row in rows] == list(rules.RULES)
    assert rows[0].split()[5] == "+0.000"


def test_the_job_of_the_cluster_is_shell_and_names_what_there_is():
    job = EXAMPLES / "cluster" / "job.sh"
    assert subprocess.run(["bash", "-n", job]).returncode == 0
    named = re.findall(r"--(engine\.\w+)", job.read_text(encoding="utf-8"))
    settings = TrainConfig().model_dump()["engine"]
    assert named
    assert {name.partition(".")[2] for name in named} <= settings.keys()
