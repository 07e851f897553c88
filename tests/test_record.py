import json
import math

import pytest

from agentrl import disk, record
from agentrl.errors import UsageError
from agentrl.record import Mark
from agentrl.task import Task
from agentrl.trajectory import Branch, Span, Stop, Trajectory


def trajectory(member=0, reward=1.0):
    branch = Branch().plus(Span("prompt", (1, 2)), Span("sampled", (3,), (-0.5,)))
    return Trajectory(
        Task("q", "a"), member, 7, (), (), Stop.ANSWER, (branch,), reward, {"correct": reward}
    )


def test_a_step_holds_every_trajectory_kept_or_not(tmp_path):
    folder = record.create(str(tmp_path), "run", "x")
    rows = [trajectory(0), trajectory(1, 0.0)]
    folder.write_episodes("groups", 4, rows, [Mark(True, 0.7, 1.0), Mark()], tokens=True)
    found = list(disk.rows(folder.path / "groups" / "000004.jsonl"))
    assert [(r["member"], r["kept"], r["advantage"]) for r in found] == [
        (0, True, 0.7),
        (1, False, None),
    ]
    assert found[0]["input_ids"] == [1, 2, 3]
    assert found[0]["logprobs"] == [None, None, -0.5]
    assert found[0]["stop"] == "answer"
    assert found[0]["tokens"] == 3
    assert found[0]["trained_tokens"] == 1


def test_tokens_are_left_out_unless_asked_for(tmp_path):
    folder = record.create(str(tmp_path), "run", "x")
    folder.write_episodes("heldout", 0, [trajectory()])
    assert "input_ids" not in next(disk.rows(folder.path / "heldout" / "000000.jsonl"))


def test_a_folder_that_holds_a_run_is_refused_and_untouched(tmp_path):
    folder = record.create(str(tmp_path), "run", "x")
    folder.write_run({"status": "done"})
    before = (folder.path / "run.json").read_bytes()
    for refuse in (
        lambda: record.check_free(str(tmp_path), "run"),
        lambda: record.create(str(tmp_path), "run", "x"),
    ):
        with pytest.raises(UsageError, match=r"holds a run.*--resume"):
            refuse()
    assert (folder.path / "run.json").read_bytes() == before


def test_runs_without_a_name_get_the_next_free_number(tmp_path):
    names = [record.create(str(tmp_path), "", "tool_math").path.name for _ in range(3)]
    assert names == ["tool_math-001", "tool_math-002", "tool_math-003"]


def test_a_number_that_another_process_took_is_passed_over(tmp_path):
    (tmp_path / "tool_math-001").mkdir()
    (tmp_path / "tool_math-002").touch()
    assert record.create(str(tmp_path), "", "tool_math").path.name == "tool_math-003"


def test_a_run_has_one_writer_at_a_time(tmp_path):
    folder = record.create(str(tmp_path), "run", "x")
    with record.hold(folder), pytest.raises(UsageError, match="another process is writing"):
        record.hold(folder)
    record.hold(folder).close()


def test_an_out_that_cannot_be_a_folder_is_one_line_and_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("x")
    for refuse in (
        lambda: record.check_free(str(tmp_path / "file" / "runs"), ""),
        lambda: record.create(str(tmp_path / "file" / "runs"), "", "x"),
    ):
        with pytest.raises(UsageError, match="cannot be written"):
            refuse()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


def test_a_run_is_found_by_path_by_name_or_as_the_newest(tmp_path):
    folder = record.create(str(tmp_path), "run", "x")
    folder.write_run({"status": "done"})
    for name in (str(folder.path), "run", ""):
        assert record.locate(name, str(tmp_path)).path == folder.path
    with pytest.raises(UsageError, match="no such run"):
        record.locate("other", str(tmp_path))


def test_going_back_to_a_step_forgets_what_came_after(tmp_path):
    folder = record.create(str(tmp_path), "run", "x")
    for step in (1, 2, 3):
        folder.write_metrics({"step": step})
        folder.write_episodes("groups", step, [trajectory()])
    folder.forget_after(2)
    assert [row["step"] for row in disk.rows(folder.metrics)] == [1, 2]
    assert sorted(p.stem for p in folder.path.glob("groups/*")) == ["000001", "000002"]


def test_a_last_line_that_was_cut_short_is_passed_over(tmp_path):
    path = tmp_path / "metrics.jsonl"
    disk.append(path, [{"step": 1}, {"step": 2}])
    with path.open("a") as file:
        file.write('{"step": 3, "rew')
    assert [row["step"] for row in disk.rows(path)] == [1, 2]


def test_what_json_cannot_say_becomes_null():
    row = {"a": math.nan, "b": [math.inf, 1.0], "c": {"d": -math.inf}}
    assert json.loads(disk.line(row)) == {"a": None, "b": [None, 1.0], "c": {"d": None}}


def test_replacing_a_file_leaves_no_other_file_behind(tmp_path):
    disk.replace(tmp_path / "run.json", "one")
    disk.replace(tmp_path / "run.json", "two")
    assert (tmp_path / "run.json").read_text() == "two"
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]
