"""Evaluations are compared task by task, and what is unlike is refused or named."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from agentrl.cli import main
from agentrl.header import NAME, SCHEMA

HEADER = {
    "schema": SCHEMA,
    "env": "sums",
    "options": {},
    "split": "test",
    "k": 1,
    "sampling": {"temperature": 1.0},
    "limits": {"max_tokens": 100},
    "template": {"source": "hermes", "sha256": "a" * 64},
    "reward": "environment",
    "model": {"name": "m"},
}


def row(task, correct, member=0, stop="answer"):
    status = "error" if correct is None else "ok"
    reward = None if correct is None else float(correct)
    return {
        "task_id": task,
        "member": member,
        "reward": reward,
        "correct": correct,
        "stop": stop,
        "status": status,
        "messages": [],
    }


def evaluation(folder, rows, **changes):
    folder.mkdir()
    (folder / NAME).write_text(json.dumps(HEADER | changes))
    (folder / "episodes.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return folder


def compared(capsys, *args):
    code = main(["compare", *map(str, args), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_differences_are_of_the_same_tasks(capsys, tmp_path):
    one = evaluation(tmp_path / "a", [row(f"t{i}", i < 4) for i in range(10)])
    other = evaluation(tmp_path / "b", [row(f"t{i}", i >= 2) for i in range(10)])
    code, found = compared(capsys, one, other)
    (pair,) = found["comparisons"]
    assert code == 0
    assert (pair["tasks"], pair["better"], pair["worse"], pair["same"]) == (10, 6, 2, 2)
    assert pair["difference"]["mean"] == pytest.approx(0.4)
    assert pair["difference"]["low"] < 0.4 < pair["difference"]["high"]
    assert pair["p"] == pytest.approx(2 * (1 + 8 + 28) / 256)
    assert pair["accuracy"]["first"]["mean"] == 0.4
    assert pair["accuracy"]["second"]["mean"] == 0.8
    assert pair["reward_difference"]["mean"] == pytest.approx(0.4)


def test_attempts_are_averaged_within_tasks_and_broken_ones_left_out(capsys, tmp_path):
    one = evaluation(tmp_path / "a", [row("t", True, 0), row("t", None, 1), row("u", None)])
    other = evaluation(tmp_path / "b", [row("t", True, 0), row("t", False, 1), row("u", True)])
    (pair,) = compared(capsys, one, other)[1]["comparisons"]
    assert (pair["tasks"], pair["unpaired"]) == (1, 1)
    assert pair["difference"]["mean"] == -0.5


def test_the_last_line_of_an_attempt_counts(capsys, tmp_path):
    one = evaluation(tmp_path / "a", [row("t", None), row("t", True)])
    (pair,) = compared(capsys, one, one)[1]["comparisons"]
    assert pair["accuracy"]["first"]["mean"] == 1.0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"env": "products"}, "env sums → products"),
        ({"options": {"most": 3}}, "options.most null → 3"),
        ({"split": "train"}, "split test → train"),
        ({"k": 4}, "k 1 → 4"),
        ({"sampling": {"temperature": 0.5}}, "sampling.temperature 1.0 → 0.5"),
        ({"limits": {"max_tokens": 50}}, "limits.max_tokens 100 → 50"),
        ({"template": {"source": "hermes", "sha256": "b" * 64}}, "template.sha256 aaaaaaaaaaaa..."),
        ({"reward": "stricter.py:reward"}, "reward environment → stricter.py:reward"),
    ],
)
def test_what_is_unlike_is_refused_or_named(capsys, tmp_path, changes, named):
    one = evaluation(tmp_path / "a", [row("t", True)])
    other = evaluation(tmp_path / "b", [row("t", True)], **changes)
    code, found = compared(capsys, one, other)
    assert code == 2
    assert named in found["error"]
    assert "--force" in found["error"]
    code, found = compared(capsys, one, other, "--force")
    assert code == 0
    assert any(named in why for why in found["comparisons"][0]["unlike"])


def test_other_models_are_what_is_compared(capsys, tmp_path):
    one = evaluation(tmp_path / "a", [row("t", True)])
    other = evaluation(tmp_path / "b", [row("t", True)], model={"name": "n"}, engine="vllm")
    assert compared(capsys, one, other)[1]["comparisons"][0]["unlike"] == []


def test_what_was_broken_off_is_refused_or_named(capsys, tmp_path):
    rows = [row("t", True, 0), row("t", False, 1)]
    one = evaluation(tmp_path / "a", rows, tasks=1, k=2)
    other = evaluation(tmp_path / "b", rows[:1], tasks=1, k=2)
    code, found = compared(capsys, one, other)
    assert (code, f"{other} has 1 of 2 episodes" in found["error"]) == (2, True)
    assert compared(capsys, one, one)[0] == 0
    assert compared(capsys, other, one, "--force")[1]["comparisons"][0]["unlike"]


def test_tasks_that_share_an_id_are_two(capsys, tmp_path):
    rows = [row("t", i > 0) | {"task_hash": f"h{i}"} for i in range(3)]
    one = evaluation(tmp_path / "a", rows, tasks_sha256="x")
    (pair,) = compared(capsys, one, one)[1]["comparisons"]
    assert (pair["tasks"], pair["accuracy"]["first"]["mean"]) == (3, pytest.approx(2 / 3))


def test_other_tasks_are_unlike(capsys, tmp_path):
    one = evaluation(tmp_path / "a", [row("t", True), row("u", True)])
    other = evaluation(tmp_path / "b", [row("t", True)])
    assert "tasks: 1 in common of 2 and 1" in compared(capsys, one, other)[1]["error"]
    apart = evaluation(tmp_path / "c", [row("x", True)])
    assert "no task" in compared(capsys, one, apart, "--force")[1]["error"]


def test_several_are_compared_with_the_first_and_people_read_it(capsys, tmp_path):
    folders = [evaluation(tmp_path / name, [row("t", name != "b")]) for name in "abc"]
    assert main(["compare", *map(str, folders)]) == 0
    said = capsys.readouterr().out
    assert said.count("difference") == 2
    assert "1 worse" in said


@pytest.mark.parametrize("args", ["{a}", "{a} {none}", "{a} {empty}", "{a} {odd}"])
def test_what_is_no_evaluation_is_refused_in_a_line(capsys, tmp_path, args):
    evaluation(tmp_path / "a", [row("t", True)])
    evaluation(tmp_path / "empty", [])
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "x.jsonl").write_text("{}\n")
    names = {name: tmp_path / name for name in ("a", "none", "empty", "odd")}
    assert main(["compare", *args.format(**names).split()]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def run_folder(path, steps):
    (path / "heldout").mkdir(parents=True)
    (path / "run.json").write_text("{}")
    (path / "config.toml").write_text(
        '[env]\nname = "sums"\n[model]\nname = "tiny"\n[rollout]\nmax_tokens = 100\n'
        "[heldout]\nk = 1\n[select]\nn = 4\n"
    )
    for step, rows in steps.items():
        text = "".join(json.dumps(r) + "\n" for r in rows)
        (path / "heldout" / f"{step:06d}.jsonl").write_text(text)
    return path


def test_steps_of_runs_are_compared_with_each_other_and_with_evaluations(capsys, tmp_path):
    run = run_folder(tmp_path / "r", {0: [row("t", False)], 20: [row("t", True)]})
    code, found = compared(capsys, f"{run}@0", run)
    assert (code, found["comparisons"][0]["difference"]["mean"]) == (0, 1.0)
    other = evaluation(tmp_path / "a", [row("t", True)])
    assert compared(capsys, run, other)[1]["comparisons"][0]["difference"]["mean"] == 0
    assert "There are those of: 0, 20" in compared(capsys, f"{run}@7", run)[1]["error"]


def test_a_folder_may_have_an_at_in_its_name(capsys, tmp_path):
    rows = {0: [row("t", False)], 20: [row("t", True)]}
    run = run_folder(tmp_path / "me@home", rows)
    for first in (f"{run}@0", run):
        assert compared(capsys, first, run)[0] == 0
    (run / "heldout" / "notes.jsonl").write_text("mine")
    assert compared(capsys, run, run)[0] == 0
    assert "There are those of: 0, 20" in compared(capsys, f"{run}@7", run)[1]["error"]


@pytest.mark.parametrize(
    ("config", "line"),
    [("", {}), ("env = 'x'", {}), (None, {"reward": "much"}), (None, {"member": None})],
)
def test_a_run_that_was_damaged_is_told_in_a_line(capsys, tmp_path, config, line):
    whole = run_folder(tmp_path / "a", {0: [row("t", True)]})
    other = run_folder(tmp_path / "b", {0: [row("t", True) | line]})
    if config is not None:
        (other / "config.toml").write_text(config)
    assert main(["compare", str(whole), str(other)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


MEASURED = """
import re, sys, time
from pathlib import Path
from agentrl.cli import main
begun = time.process_time()
code = main(sys.argv[1:])
# Not ru_maxrss, which begins with that of the process that started this one.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
print("measured", code, peak, time.process_time() - begun, file=sys.stderr)
"""


def measured(*args):
    """Exit code, peak MiB and seconds of work of a command in a process of its own."""
    call = [sys.executable, "-c", MEASURED, *map(str, args)]
    said = subprocess.run(call, capture_output=True, text=True, check=True).stderr
    last = [line.split() for line in said.splitlines() if line.startswith("measured")][-1]
    return int(last[1]), float(last[2]), float(last[3])


def many(folder, lines, words):
    """An evaluation with long conversations, written without holding it."""
    folder.mkdir()
    (folder / NAME).write_text(json.dumps(HEADER | {"k": 4}))
    talk = [{"role": "user", "content": words}, {"role": "assistant", "content": words}]
    with (folder / "episodes.jsonl").open("w") as file:
        for i in range(lines):
            one = row(f"t{i // 4}", i % 3 == 0, i % 4) | {"messages": talk * 4}
            file.write(json.dumps(one) + "\n")
    return folder


@pytest.mark.slow
def test_a_hundred_thousand_lines_are_compared_in_a_line_of_time_and_little_memory(tmp_path):
    words = "so many words " * 30
    few = many(tmp_path / "few", 25_000, words)
    all_ = many(tmp_path / "all", 100_000, words)
    code, _, quick = measured("compare", few, few)
    assert code == 0
    code, peak, slow = measured("compare", all_, all_)
    assert code == 0
    assert peak < 1024
    assert slow < 8 * quick
