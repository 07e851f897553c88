"""Every command that a document shows is run: as it stands, only shorter.

Training is shown with `--dry-run` (all settings, the environment, the model's folder), and really
done in the slow test. What needs a second machine, a GPU or a package of somebody else's is in a
table with its reason.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from agentrl.cli.entry import main

ROOT = Path(__file__).parents[1]
OWN_TEST = {"docs/environments.md", "docs/first-hour.md", "tools/README.md"}
"""Documents with a test of their own, which does more."""
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("*.md")]
)
ELSEWHERE = {
    "verifiers/": "a package whose needs conflict with ours",
    "gem/": "a package that is not installed for tests",
    "openenv/": "a server of somebody else's",
    "--base-url": "a server of somebody else's; tests/test_served.py has one",
    "serve ": "a server; tests/test_servers_real.py starts one",
    "--serve": "a server; tests/test_view_serve.py starts it",
    "--open": "opens a browser",
    "reasoning_gym/": "an extra",
    "gymnasium/": "makes an environment of gymnasium's; tests/test_gym.py has them",
    "--env gsm": "an extra",
    "--env search_qa": "an extra",
    "--env bfcl": "a package that is installed by hand",
    "--model smollm2-135m": "a model that is installed by hand",
    "sft --data A": "a form, not a command",
}
TRAIN = shlex.split("--n 4 --m 2 --steps 1 --tasks-per-step 1 --heldout.tasks 2 --progress off")
SHORT = {
    "eval": shlex.split("--tasks 2 --k 1"),
    "rollout": shlex.split("--n 2 --tasks 2"),
    "sft": shlex.split("--keep reward>=0 --epochs 1 --batch 2 --heldout 0"),
}
SUITE = '[eval]\ntasks = 2\n\n[[suite]]\nenv.name = "tool_math"\n'
REWARD = "def reward(task, trajectory):\n    return 0.0\n"


def commands(page):
    """Commands of a document's blocks; of runs there is only step 1.

    What follows three blanks or # is a remark, what follows > a file.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = [
        re.split(r"\s{3,}|\s+# |\s> ", line)[0].strip()
        for line in re.findall(r"^    agentrl (.*)$", text, re.MULTILINE)
    ]
    return [re.sub(r"--step \d+", "--step 1", line) for line in lines]


EVERY = [(page, line) for page in PAGES if page not in OWN_TEST for line in commands(page)]


def elsewhere(line):
    return next((reason for mark, reason in ELSEWHERE.items() if mark in f"{line} "), None)


def run(line, *more):
    words = shlex.split(line)
    assert main([*words, *more]) in (0, 3), line


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """A folder in which the documents' commands find what they speak of."""
    folder = tmp_path_factory.mktemp("workshop")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("examples", "configs"):
            (folder / name).symlink_to(ROOT / name)
        for model in ("Qwen", "models/Qwen2.5-3B", "models/Qwen3-4B", "Qwen2.5-3B"):
            (folder / model).mkdir(parents=True)
            copied(ROOT / "examples/one_gpu/config.json", folder / model / "config.json")
        (folder / "suite.toml").write_text(SUITE)
        (folder / "stricter.py").write_text(REWARD)
        (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
        (folder / "tool_math.py").write_text(block)
        (folder / "mine.toml").write_text("[select]\nn = 16\nm = 4\n")
        for name in ("mine", "tool_math-001", "tool_math-002", "pods", "grpo"):
            run("train --env tool_math --record.tokens true --name", name, *TRAIN)
        for name in ("before", "after", "shop"):
            run("eval --env tool_math --out", f"evals/{name}", *SHORT["eval"])
        yield folder


def copied(source, target):
    target.write_bytes(source.read_bytes())


def test_every_reason_to_leave_a_command_out_is_used():
    assert all(any(mark in f"{line} " for _, line in EVERY) for mark in ELSEWHERE)


@pytest.mark.parametrize("page", sorted({page for page, _ in EVERY}))
def test_commands_of_a_page(page, workshop, monkeypatch, capsys):
    monkeypatch.chdir(workshop)
    for line in commands(page):
        if elsewhere(line) is None:
            dry = line.startswith("train ") and "--dry-run" not in line
            name = line.split()[0]
            if name == "eval" and "--out" in line:
                shutil.rmtree(line.partition("--out ")[2].split()[0], ignore_errors=True)
            run(line, *(["--dry-run"] if dry else SHORT.get(name, [])))
            capsys.readouterr()


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for _, line in EVERY if line.startswith("train ")])
def test_training_of_a_page(line, workshop, tmp_path, monkeypatch):
    if elsewhere(line) or "--resume" in line or "config " in line or "models/" in line:
        pytest.skip("not on this machine")
    monkeypatch.chdir(tmp_path)
    run(line, *TRAIN, "--rollout.max_context", "8192")
