"""The tutorial on environments does what it says."""

from __future__ import annotations

import ast
import inspect
import io
import json
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

import agentrl
from agentrl import curriculum
from agentrl.calling import MAX_ARGUMENTS
from agentrl.cli.entry import main
from agentrl.config import TrainConfig
from agentrl.env import ToolEnv
from agentrl.mixture import mixture_of
from agentrl.tooling import TIMEOUT

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS / "environments.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
FILE = "\n\n".join(block for block in BLOCKS if "\nclass " in block or block.startswith("class "))
COMMANDS = re.findall(r"^    agentrl (.*)$", TEXT, re.MULTILINE)
TYPED = "".join(f"{line}\n" for line in re.findall(r"^    > (.*)$", TEXT, re.MULTILINE))
SMALL = shlex.split("--n 4 --m 2 --steps 2 --tasks-per-step 1 --heldout.tasks 4 --progress off")
"""Makes a run short, behind the settings of the document."""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "tape.py").write_text(FILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(TYPED))
    return tmp_path


def lines_of_code(text):
    """Lines that are neither blank nor documentation."""
    told = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    return [s for i, s in enumerate(text.splitlines(), 1) if s.strip() and i not in told]


def test_its_environment_has_25_lines():
    assert len(lines_of_code(BLOCKS[0])) <= 25


def test_its_commands_can_be_called_in_an_empty_folder_one_after_the_other(here, capfd):
    assert len(COMMANDS) == 9
    said = {}
    for command in COMMANDS:
        words = shlex.split(command)
        if words[0] == "train":
            words += SMALL
        assert main(words) == 0, command
        said[" ".join(words[:2])] = capfd.readouterr().out
    assert (here / "orchard.py").exists()
    assert "not shown: 2013" in said["envs show"]
    assert all(line in TEXT for line in said["envs play"].splitlines()[-3:])
    assert said["envs check"].endswith("17 passed\n")
    run = json.loads((here / "runs/both/run.json").read_text())
    assert set(run["heldout"]["after"]["by"]["env"]) == {"tape.py:Tape", "tool_math"}
    rows = (here / "runs/levels/metrics.jsonl").read_text().splitlines()
    assert any(name.startswith("curriculum/") for name in json.loads(rows[-1]))


def test_its_blocks_can_be_run(here):
    (block,) = (block for block in BLOCKS if block not in FILE)
    exec(FILE + block, {"__name__": "page"})


@pytest.mark.parametrize("name", ["Tape", "Priced", "Levels"])
def test_the_references_of_its_environments_are_correct(here, name):
    env = agentrl.make(f"tape.py:{name}")
    source = env.task_source("test")
    for index in range(20):
        env.reset(options={"task": source[index]})
        assert [env.step(words) for words in source[index].reference][-1][-1]["correct"]
    env.close()


def test_a_look_at_the_tape_has_its_price_at_once_and_a_metric(here):
    env = agentrl.make("tape.py:Priced")
    env.reset(seed=0)
    assert env.step('<tool_call>{"name": "tape", "arguments": {}}</tool_call>')[1] == -0.1
    assert env.turns[-1].outcomes[0].metrics == {"looked": 1.0}
    env.close()


def test_levels_are_chosen_by_an_option_and_told(here):
    source = agentrl.make("tape.py:Levels", most=3).task_source("train")
    assert {source[i].meta["difficulty"] for i in range(50)} == {"2 digits", "3 digits"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Tape", "Priced", "Levels"])
def test_its_environments_pass_the_checks(here, name):
    report = agentrl.check_env(f"tape.py:{name}")
    assert report.ok, str(report)


@pytest.mark.slow
def test_the_policy_that_it_trains_gets_better(here, capfd):
    (command,) = (c for c in COMMANDS if c.startswith("train") and "--name tape" in c)
    assert main(shlex.split(command)) == 0
    capfd.readouterr()
    heldout = json.loads((here / "runs/tape/run.json").read_text())["heldout"]
    assert heldout["after"]["low"] > heldout["before"]["high"]


def test_the_mixture_among_the_configs_is_one():
    pytest.importorskip("bm25s", reason="search_qa is one of its parts")
    with (DOCS.parent / "configs/mixture.toml").open("rb") as file:
        config = TrainConfig.model_validate(tomllib.load(file))
    assert [part.weight for part in mixture_of(config.env.name, {}).parts] == [2, 1, 1]


def test_its_figures_are_those_of_the_code():
    for name in re.findall(r"`(max_\w+)` \((\d+)\)", TEXT):
        assert getattr(ToolEnv, name[0]) == int(name[1])
    assert ToolEnv.max_argument_chars == MAX_ARGUMENTS
    assert f"({TIMEOUT:g} s if not given)" in TEXT
    assert curriculum.FLOOR == 0.1
    assert inspect.signature(agentrl.tool).parameters["timeout"].default == TIMEOUT


def test_its_links_lead_somewhere():
    pages = [DOCS / "environments.md", DOCS.parent / "environments/README.md"]
    for page in (*pages, *(DOCS / "environments").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_environment_that_comes_along_has_a_line_and_a_page():
    text = (DOCS.parent / "environments/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`(\w+)`\]\(\.\./docs/environments/(\w+)\.md\) \|", text, re.MULTILINE)
    folder = DOCS.parent / "environments/agentrl_environments"
    modules = {path.stem for path in folder.glob("[!_]*.py")}
    assert {name for name, _ in rows} == modules
    assert all(name == page for name, page in rows)
