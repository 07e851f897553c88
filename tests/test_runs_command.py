import json
from datetime import UTC, datetime

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
    disk.append(folder.metrics, [{"step": 1}, {"step": 2}])
    with folder.metrics.open("a") as file:
        file.write('{"step": 3')
    (row,) = runs.listed(tmp_path, NOON)
    assert (row["name"], row["status"], row["steps"]) == ("one", "done", 2)
    assert (row["before"], row["after"], row["tokens"]) == (0.25, 0.5, 1_234_567)
    assert row["age"] == 2.5 * 3600
    head, line = runs.table([row]).splitlines()
    assert head.split() == ["name", "env", "model", "status", "steps", "held-out", "tokens", "age"]
    assert line.split() == [
        *("one", "tool_math", "tiny", "done", "2", "0.250", "->", "0.500", "1.2M", "2h")
    ]


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
