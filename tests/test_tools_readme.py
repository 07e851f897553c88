"""The document on tools does what it says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from agentrl import registry
from agentrl.author import GRACE
from agentrl.calling import MAX_ARGUMENTS, MAX_COMPLAINT, MAX_DEPTH
from agentrl.cli.entry import main
from agentrl.env import ToolEnv
from agentrl.message import AssistantTurn, ToolCall
from agentrl.prints import MOST
from agentrl.task import Task
from agentrl.tooling import TIMEOUT, tools_of
from agentrl.workers import MOST_LEFT, MOST_LEFT_BY_ONE
from tests.boxes import box

TEXT = (Path(__file__).parents[1] / "tools/README.md").read_text(encoding="utf-8")
BLOCKS = {name: block for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
          for name in re.findall(r"^class (\w+)", block, re.MULTILINE)}  # fmt: skip
COMMANDS = re.findall(r"^    agentrl (tools .*)$", TEXT, re.MULTILINE)


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "notes.py").write_text(BLOCKS["Notes"])
    (tmp_path / "desk.py").write_text(BLOCKS["Notes"] + BLOCKS["Desk"])
    monkeypatch.chdir(tmp_path)


def test_the_toolbox_of_the_document_has_ten_lines():
    assert len([line for line in BLOCKS["Notes"].splitlines() if line.strip()]) <= 10


def test_its_commands_can_be_called(here, capfd):
    assert len(COMMANDS) == 2
    for command in COMMANDS:
        assert main(shlex.split(command)) == 0
    assert json.loads("{" + capfd.readouterr().out.partition("{")[2])["content"] == (
        "first things first"
    )


def test_its_environment_can_be_played(here):
    env = registry.make("desk.py:Desk")
    env.reset(options={"task": Task("2^10?", "1024")})

    def say(name, **arguments):
        body = json.dumps({"name": name, "arguments": arguments})
        messages, *_ = env.step(f"<tool_call>{body}</tool_call>")
        return messages[0]["content"]

    assert say("calculator", expression="2^10") == "1024"
    assert say("note", line="a") == "a"
    assert say("note", line="b") == "a\nb"
    assert env.step("1024")[1] == 1.0
    env.close()


def test_its_environment_with_files_can_be_played(tmp_path):
    with box(level=3):
        pass
    (tmp_path / "report.py").write_text(BLOCKS["Report"])
    env = registry.make(f"{tmp_path / 'report.py'}:Report")
    env.reset(options={"task": Task("Sum it up.", "42", meta={"csv": "n\n40\n2\n"})})
    code = (
        "rows = open('numbers.csv').read().split()[1:]\n"
        "with open('sum.txt', 'w') as file: print(sum(map(int, rows)), file=file)"
    )
    env.step(AssistantTurn("", (ToolCall("python", {"code": code}),)))
    assert env.step("Done.")[1] == 1.0
    env.close()


def test_its_table_names_every_toolbox_and_every_tool():
    rows = dict(re.findall(r"^\| `([\w.:]+)` \| ([^|]+) \|", TEXT, re.MULTILINE))
    for name in registry.TOOLBOXES.names():
        tools = tools_of(registry.TOOLBOXES.resolve(name))
        assert re.findall(r"`(\w+)`", rows[name]) == list(tools)
    assert "agentrl.mcp:McpTools" in rows


def test_its_links_lead_somewhere():
    folder = Path(__file__).parents[1] / "tools"
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (folder / target).exists(), target


def test_its_figures_are_those_of_the_code():
    for figure in (
        f"{TIMEOUT:g} s by default",
        f"leaves {MOST_LEFT} of them",
        f"has left {MOST_LEFT_BY_ONE} runs",
        f"over {MAX_ARGUMENTS:,} characters",
        f"or {MAX_DEPTH} levels",
        f"(`max_result_chars` ({ToolEnv.max_result_chars})"[1:],
        f"at most {MAX_COMPLAINT} characters",
        f"first {MOST:,} characters",
    ):
        assert figure in TEXT
    assert "has a second to tidy up" in TEXT
    assert GRACE == 1.0
