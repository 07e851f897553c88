import json
from datetime import UTC, datetime

import pytest

from agentrl import disk, record
from agentrl.cli import runs
from agentrl.cli.entry import main

FACTS = {
    "env": "tool_math",
    "model": "tiny",
    "started": "2026-12-01T10:00:00+00:00",
    "heldout": {"before": {"mean": 0.25}, "after": {"mean": 0.5}},
    "tokens": {"sampled": 1_234_567},
}
NOON = datetime(2026, 12, 1, 12, 30, tzinfo=UTC)


def made(root, name, **facts):
    folder = record.create(str(root), name, "x")
    folder.write_run({**FACTS, **facts})
    return folder


def test_each_run_is_a_row_with_what_it_came_to(tmp_path):
    folder = made(tmp_path, "one", status="done")
    disk.append(folder.metrics, [{"step": 1, "reward": 0.5}, {"step": 2, "reward": 0.75}])
    folder.write_config("[train]\nsteps = 60\n", {})
    with folder.metrics.open("a") as file:
        file.write('{"step": 3')
    (row,) = runs.listed(tmp_path, NOON)
    assert (row["name"], row["status"], row["steps"]) == ("one", "done", 2)
    assert (row["before"], row["after"], row["tokens"]) == (0.25, 0.5, 1_234_567)
    assert (row["of"], row["reward"], row["rewards"]) == (60, 0.75, [0.5, 0.75])
    assert row["age"] == 2.5 * 3600
    head, line = runs.table([row]).splitlines()
    assert " ".join(head.split()) == (
        "name env model status steps reward trend held-out tokens age"
    )
    assert " ".join(line.split()) == (
        "one tool_math tiny done 2/60 0.750 ▁█ 0.250 -> 0.500 1.2M 2h"
    )


@pytest.mark.parametrize(
    ("width", "heads"),
    [(100, "name env model status steps reward trend held-out tokens age"),
     (80, "name env status steps reward trend held-out age"),
     (60, "name status steps reward held-out")],
)  # fmt: skip
def test_a_narrow_terminal_gets_fewer_columns_and_whole_lines(tmp_path, width, heads):
    made(tmp_path, "a-run-of-some-name", status="running")
    lines = runs.table(runs.listed(tmp_path, NOON), width).splitlines()
    assert lines[0].split() == heads.split()
    assert all(len(line) <= width for line in lines)


def test_names_cannot_steer_the_terminal(tmp_path):
    made(tmp_path, "one", status="done", env="\x1b[2J[red]x", model="a\nb")
    (line,) = runs.table(runs.listed(tmp_path, NOON)).splitlines()[1:]
    assert "\\x1b[2J[red]x" in line
    assert "a\\nb" in line


def test_a_run_without_its_process_is_killed_and_one_with_it_is_running(tmp_path):
    made(tmp_path, "dead", status="running")
    living = made(tmp_path, "living", status="running")
    with record.hold(living):
        found = {row["name"]: row["status"] for row in runs.listed(tmp_path, NOON)}
    assert found == {"dead": "killed", "living": "running"}


def test_a_run_that_has_not_measured_or_cannot_be_read_has_its_row(tmp_path):
    made(tmp_path, "new", status="stopped", heldout={"before": None, "after": None}, tokens={})
    broken = made(tmp_path, "broken", status="done")
    (broken.path / "run.json").write_text("{")
    rows = {row["name"]: row for row in runs.listed(tmp_path, NOON)}
    assert rows["broken"]["status"] == "run.json is broken"
    assert (rows["new"]["before"], rows["new"]["tokens"]) == (None, None)
    assert len(runs.table(list(rows.values())).splitlines()) == 3


def test_the_command_prints_a_table_or_json(tmp_path, capsys):
    assert main(["runs", "--out", str(tmp_path)]) == 0
    assert "no runs yet" in capsys.readouterr().out
    made(tmp_path, "one", status="done")
    assert main(["runs", "--out", str(tmp_path), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["path"] == str(tmp_path / "one")
    assert main(["runs", "--out", str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err
