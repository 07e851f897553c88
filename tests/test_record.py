import errno
import json
import math
import os
import signal
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from agentrl import disk, record
from agentrl.errors import RunError, UsageError
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


HOLDS = """
import sys, time
from pathlib import Path
from agentrl import record
held = record.hold(record.RunFolder(Path(sys.argv[1])))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def other(tmp_path):
    """A process that holds a run, and the run's folder."""
    folder = record.create(str(tmp_path), "run", "x")
    folder.write_run({"status": "running"})
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(folder.path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process, folder
    process.kill()
    process.wait()
    process.stdout.close()


def test_another_process_that_writes_is_named(other):
    process, folder = other
    with pytest.raises(UsageError, match=rf"another process .*\(process {process.pid} on "):
        record.hold(folder)
    assert folder.read_run()["status"] == "running"


def test_a_run_whose_process_was_killed_is_free_and_says_killed(other):
    process, folder = other
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert folder.read_run()["status"] == "killed"
    assert json.loads((folder.path / "run.json").read_text())["status"] == "running"
    with record.hold(folder):
        assert folder.read_run()["status"] == "running"
        assert f"process {os.getpid()} " in disk.holder(folder.path)
    assert folder.read_run()["status"] == "killed"


@pytest.mark.parametrize("status", ["done", "failed", "stopped"])
def test_a_run_that_ended_says_how_whoever_holds_it(tmp_path, status):
    folder = record.create(str(tmp_path), "run", "x")
    folder.write_run({"status": status})
    assert folder.read_run()["status"] == status


def test_whoever_looks_at_a_run_does_not_keep_its_writer_out(other):
    process, folder = other
    process.kill()
    process.wait()
    looks = (folder.path / disk.LOCK).open("rb")
    tries = []

    def lock(number, how):
        tries.append(how)
        if len(tries) < 3:
            raise BlockingIOError(errno.EAGAIN, "a reader is looking")

    with looks, disk.hold(folder.path, lock=lock, pauses=(0, 0, 0)) as held:
        assert held is not None
    assert len(tries) == 3


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_holds_nobody_up(tmp_path, number):
    def lock(*_):
        raise OSError(number, "no locks here")

    disk.hold(tmp_path, lock=lock).close()
    assert disk.is_held(tmp_path, lock=lock)


def test_a_broken_run_json_is_one_line(tmp_path):
    folder = record.create(str(tmp_path), "run", "x")
    for text in ("", "{", "[]", "{}"):
        (folder.path / "run.json").write_text(text)
        with pytest.raises(UsageError, match=r"run\.json: cannot be read"):
            folder.read_run()


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


ROWS = st.lists(st.dictionaries(st.text(max_size=9), st.text(max_size=99)), max_size=5)


@given(rows=ROWS, more=ROWS, share=st.floats(0, 1))
@limits(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_file_cut_anywhere_reads_as_its_whole_lines_and_goes_on_after_them(
    tmp_path_factory, rows, more, share
):
    path = tmp_path_factory.mktemp("cut") / "rows.jsonl"
    disk.append(path, rows)
    data = path.read_bytes()
    left = data[: round(share * len(data))]
    path.write_bytes(left)
    whole = rows[: left.count(b"\n")]
    assert list(disk.rows(path)) == whole
    disk.append(path, more)
    assert list(disk.rows(path)) == whole + more


def test_lines_longer_than_a_look_back_are_whole_too(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [{"a": "é" * 200_000}, {"b": 1}]
    disk.append(path, rows)
    path.write_bytes(path.read_bytes()[:-2])
    disk.append(path, rows)
    assert list(disk.rows(path)) == [rows[0], *rows]


def test_a_whole_line_that_is_no_json_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n\x00\x00\n{"a": 2}\n')
    with pytest.raises(UsageError, match=r"rows\.jsonl:2: not JSON"):
        list(disk.rows(path))


def test_a_device_that_is_full_is_one_line(tmp_path):
    folder = record.create(str(tmp_path), "run", "x")
    folder.metrics.symlink_to("/dev/full")
    with pytest.raises(RunError, match=r"metrics\.jsonl: cannot be written.*No space left"):
        folder.write_metrics({"step": 1})


def test_what_was_put_aside_by_a_killed_process_goes_when_the_run_goes_on(tmp_path):
    folder = record.create(str(tmp_path), "run", "x")
    folder.write_run({"status": "running"})
    folder.write_episodes("groups", 1, [trajectory()])
    left = [".run.json.123", ".metrics.jsonl.9", "groups/.000002.jsonl.77"]
    for name in left:
        (folder.path / name).write_text("{")
    record.hold(folder).close()
    folder.forget_after(1)
    found = {str(p.relative_to(folder.path)) for p in folder.path.rglob("*") if p.is_file()}
    assert found == {".lock", "run.json", "groups/000001.jsonl"}


def test_what_json_cannot_say_becomes_null():
    row = {"a": math.nan, "b": [math.inf, 1.0], "c": {"d": -math.inf}}
    assert json.loads(disk.line(row)) == {"a": None, "b": [None, 1.0], "c": {"d": None}}


def test_replacing_a_file_leaves_no_other_file_behind(tmp_path):
    disk.replace(tmp_path / "run.json", "one")
    disk.replace(tmp_path / "run.json", "two")
    assert (tmp_path / "run.json").read_text() == "two"
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]
