"""An evaluation is written as it happens, goes on after any end, and is told by its lines alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from agentrl import header, journal
from agentrl.cli import main
from agentrl.config import EvalConfig
from agentrl.evaluation import evaluate
from agentrl.interval import Interval
from agentrl.suite import joined
from tests.chat_server import refused, said, serving
from tests.mounts import can_mount, inside

SUMS = '''
from pathlib import Path

from agentrl import ListTasks, Task, ToolEnv


class Sums(ToolEnv):
    """Add two numbers."""

    def __init__(self, most: int = 9):
        self.most = most

    def task_source(self, split):
        first = int((Path(__file__).parent / "first.txt").read_text())
        pairs = [(a, b) for a in range(first, self.most) for b in range(3)]
        return ListTasks([Task(f"{a}+{b}?", str(a + b), meta={"difficulty": "ab"[a > 4]})
                          for a, b in pairs])

    def reward(self, task, trajectory):
        return float(trajectory.answer == task.answer)
'''


@pytest.fixture
def sums(tmp_path):
    path = tmp_path / "sums.py"
    path.write_text(SUMS)
    (tmp_path / "first.txt").write_text("0")
    return f"{path}:Sums"


def knowing(body):
    """A server that adds, but cannot carry."""
    question = body["messages"][-1]["content"].rstrip("?")
    a, b = question.split("+")
    return said(str((int(a) + int(b)) % 10))


def words(env, url, out, *more):
    return [
        "eval", "--env", env, "--base-url", url, "--model", "m", "--out", str(out),
        "--tasks", "12", "--k", "2", *more,
    ]  # fmt: skip


def run(capsys, *args):
    code = main([str(arg) for arg in args])
    return code, capsys.readouterr()


def test_a_document_says_what_was_measured_and_how(capsys, tmp_path, sums):
    with serving(knowing) as server:
        code, said_ = run(capsys, *words(sums, server.url, tmp_path / "e", "--json"))
    found = json.loads(said_.out)
    assert code == 0
    assert (found["tasks"], found["k"], found["episodes"], found["errors"]) == (12, 2, 24, 0)
    assert found["accuracy"]["mean"] == found["pass_at"]["2"] == 1.0
    assert found["usage"]["requests"] == 24
    assert found["stops"] == {"answer": 24}
    assert set(found["by"]["difficulty"]) == {"a"}
    assert found["path"] == str(tmp_path / "e")
    top = json.loads((tmp_path / "e/eval.json").read_text())
    assert top["model"] == {"name": "m"}
    assert top["sampling"] == {"temperature": 1.0}
    assert top["endpoint"]["base_url"] == server.url
    assert {"agentrl", "python", "httpx"} <= set(top["launches"][0]["versions"])


def test_the_key_is_sent_and_never_written(capsys, tmp_path, sums, monkeypatch):
    monkeypatch.setenv("OTHER_KEY", "sk-very-secret")
    more = ("--api-key-env", "OTHER_KEY", "-v")
    with serving(knowing) as server:
        code, output = run(capsys, *words(sums, server.url, tmp_path / "e", *more))
    assert code == 0
    assert server.keys[0] == "Bearer sk-very-secret"
    written = [path.read_text() for path in (tmp_path / "e").iterdir()]
    assert not any("sk-very-secret" in text for text in [*written, output.out, output.err])


def broken_off(out, keep, torn='{"task_id": "half'):
    """An evaluation as a crash leaves it: some lines, one of them cut short."""
    lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text("".join(lines[:keep]) + torn)
    (out / "summary.json").unlink()


@pytest.mark.parametrize("keep", [0, 1, 11, 24])
def test_one_that_was_broken_off_ends_in_the_same_summary(capsys, tmp_path, sums, keep):
    whole, out = tmp_path / "whole", tmp_path / "out"
    with serving(knowing) as server:
        for folder in (whole, out):
            assert run(capsys, *words(sums, server.url, folder))[0] == 0
        broken_off(out, keep)
        asked = len(server.bodies)
        code, _ = run(capsys, "eval", "--resume", out)
        assert code == 0
        assert len(server.bodies) - asked == 24 - keep
    assert (out / "summary.json").read_bytes() == (whole / "summary.json").read_bytes()
    assert len(list(journal.rows(out / "episodes.jsonl"))) == 24
    assert len(header.read(out)["launches"]) == 2


def test_what_infrastructure_broke_is_played_again_on_resuming(capsys, tmp_path, sums):
    down = {"now": True}

    def answer(body):
        if down["now"] and body["messages"][-1]["content"].startswith("2+"):
            return refused(500, "down")
        return knowing(body)

    out = tmp_path / "e"
    with serving(answer) as server:
        more = ("--endpoint.retries", 0, "--json", "--endpoint.max_live", 1)
        first = json.loads(run(capsys, *words(sums, server.url, out, *more))[1].out)
        assert first["errors"] == 6
        assert first["accuracy"]["mean"] == 1.0
        assert first["accuracy_errors_wrong"]["mean"] == 0.75
        down["now"] = False
        again = json.loads(run(capsys, "eval", "--resume", out, "--json")[1].out)
    assert (again["errors"], again["episodes"]) == (0, 24)


def test_a_changed_setting_is_refused_by_name(capsys, tmp_path, sums):
    out = tmp_path / "e"
    with serving(knowing) as server:
        assert run(capsys, *words(sums, server.url, out))[0] == 0
        for flags, name in [
            (("--k", 3), "k 2 → 3"),
            (("--env.most", 8), "options.most"),
            (("--rollout.temperature", 0.5), "sampling.temperature 1.0 → 0.5"),
            (("--model", "n"), "model.name m → n"),
            (("--tasks", 5), "other tasks"),
        ]:
            code, output = run(capsys, "eval", "--resume", out, *flags)
            assert code == 2
            assert name in output.err
        assert run(capsys, "eval", "--resume", out, "--endpoint.max_live", 3)[0] == 0


def test_tasks_that_changed_meanwhile_are_refused(capsys, tmp_path, sums):
    out = tmp_path / "e"
    with serving(knowing) as server:
        assert run(capsys, *words(sums, server.url, out))[0] == 0
        (tmp_path / "first.txt").write_text("1")
        code, output = run(capsys, "eval", "--resume", out)
    assert (code, "other tasks" in output.err) == (2, True)


def test_a_folder_with_an_evaluation_is_not_written_over(capsys, tmp_path, sums):
    with serving(knowing) as server:
        assert run(capsys, *words(sums, server.url, tmp_path / "e"))[0] == 0
        before = (tmp_path / "e/episodes.jsonl").read_bytes()
        code, output = run(capsys, *words(sums, server.url, tmp_path / "e"))
    assert (code, "--resume" in output.err) == (2, True)
    assert (tmp_path / "e/episodes.jsonl").read_bytes() == before


def test_a_wrong_key_leaves_a_folder_that_can_be_used(capsys, tmp_path, sums):
    with serving(lambda body: refused(401, "no such key")) as server:
        code, output = run(capsys, *words(sums, server.url, tmp_path / "e"))
    assert (code, output.err.count("\n")) == (2, 1)
    assert "OPENAI_API_KEY" in output.err
    with serving(knowing) as server:
        assert run(capsys, *words(sums, server.url, tmp_path / "e"))[0] == 0


def test_nothing_can_be_gone_on_with_where_nothing_was_begun(capsys, tmp_path):
    for args in (("--resume",), ("--resume", tmp_path / "none")):
        code, output = run(capsys, "eval", *args)
        assert (code, output.err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ((), "Add --model NAME"),
        (("--model", "m", "--run", "x@1"), "x"),
        (("--model", "m", "--template", "hermes"), "the server has its own"),
    ],
)
def test_an_endpoint_has_a_model_and_a_template_of_its_own(capsys, more, why):
    code, output = run(capsys, "eval", "--base-url", "http://x/v1", *more)
    assert (code, why in output.err, output.err.count("\n")) == (2, True, 1)


def test_a_broken_line_in_the_middle_is_named(capsys, tmp_path, sums):
    out = tmp_path / "e"
    with serving(knowing) as server:
        assert run(capsys, *words(sums, server.url, out))[0] == 0
        text = (out / "episodes.jsonl").read_text()
        (out / "episodes.jsonl").write_text("oops\n" + text)
        code, output = run(capsys, "eval", "--resume", out)
    assert (code, "episodes.jsonl:1: not JSON" in output.err) == (2, True)


SUITE = """
[eval]
tasks = 4

[[suite]]
env.name = "{sums}"
name = "small"

[[suite]]
env.name = "{sums}"
env.options = {{most = 20}}
eval.tasks = 40
name = "large"
"""


def test_a_suite_is_one_table_and_a_folder_each(capsys, tmp_path, sums):
    path, out = tmp_path / "suite.toml", tmp_path / "s"
    path.write_text(SUITE.format(sums=sums))
    with serving(knowing) as server:
        base = ("--base-url", server.url, "--model", "m", "--out", out)
        code, output = run(capsys, "eval", "--suite", path, *base)
        assert code == 0
        assert "small" in output.out
        assert "mean of all" in output.out
        whole = (out / "summary.json").read_bytes()
        broken_off(out / "large", 7)
        (out / "summary.json").unlink()
        assert run(capsys, "eval", "--suite", path, *base)[0] == 2
        code, output = run(capsys, "eval", "--resume", out, "--json")
    found = json.loads(output.out)
    assert found["evaluations"]["large"]["tasks"] == 40
    assert found["evaluations"]["large"]["accuracy"]["mean"] < 1
    assert (out / "summary.json").read_bytes() == whole
    assert (out / "small/episodes.jsonl").exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[eval]\ntasks = 1", "no [[suite]]"),
        ("[[suite]]\nname = 'a'", "no environment"),
        ("[[suite]]\nenv.name = 'tool_math'\nmodel.name = 'x'", "model can't differ"),
        ("[[suite]]\nenv.name = 'shop'\n[[suite]]\nenv.name = 'shop'", "there twice"),
        ("[[suite]]\nenv.name = 'shop'\nname = '../x'", "not one folder"),
    ],
)
def test_a_suite_that_is_none_is_refused(capsys, tmp_path, text, why):
    (tmp_path / "s.toml").write_text(text)
    code, output = run(capsys, "eval", "--suite", tmp_path / "s.toml")
    assert (code, why in output.err) == (2, True)


def test_means_of_independent_means_are_surer_than_each():
    part = Interval(0.5, 0.3, 0.7)
    found = joined([part] * 4)
    assert found.mean == 0.5
    assert abs(found.high - 0.6) < 1e-12


def test_evaluating_from_python_needs_no_folder(tmp_path, sums):
    with serving(knowing) as server:
        config = EvalConfig.model_validate(
            {
                "env": {"name": sums},
                "model": {"name": "m"},
                "endpoint": {"base_url": server.url},
                "eval": {"tasks": 3},
            }
        )
        found = evaluate(config)
    assert (found.path, found.measurement.episodes) == (None, 3)


def tiny(out, *more):
    """The words of an evaluation of the embedded policy, in a process of its own."""
    base = ["--env", "tool_math", "--tasks", "24", "--engine.max_live", "8", "--out", str(out)]
    return [sys.executable, "-m", "agentrl", "eval", *(more or base)]


@pytest.mark.slow
def test_one_that_was_killed_ends_in_the_same_summary_bit_for_bit(tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "out"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(tiny(whole), check=True, env=environment)
    process = subprocess.Popen(tiny(out), env=environment)
    lines = out / "episodes.jsonl"
    while process.poll() is None and not (lines.exists() and lines.read_bytes().count(b"\n") > 3):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run(tiny(out, "--resume", str(out)), check=True, env=environment)
    assert (out / "summary.json").read_bytes() == (whole / "summary.json").read_bytes()
    one, other = (sorted(map(told, journal.rows(p / "episodes.jsonl"))) for p in (whole, out))
    assert one == other


@pytest.mark.slow
def test_a_suite_killed_at_any_moment_ends_in_the_same_summaries(tmp_path):
    call = [sys.executable, "-m", "tests.eval_storm", "--kills", "30", "--out", tmp_path / "storm"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(call, capture_output=True, text=True, env=environment, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["kills"] >= 30


def test_a_suite_killed_before_its_first_episode_goes_on(capsys, tmp_path, sums):
    path, out = tmp_path / "suite.toml", tmp_path / "s"
    path.write_text(SUITE.format(sums=sums))
    with serving(lambda body: refused(401, "no")) as server:
        base = ("--base-url", server.url, "--model", "m", "--out", out)
        assert run(capsys, "eval", "--suite", path, *base)[0] == 2
    for name in ("small", "large"):
        (out / name / "eval.json").unlink()
    (out / "small" / ".eval.json.123").write_text("half")
    with serving(knowing) as server:
        more = ("--base-url", server.url)
        code, output = run(capsys, "eval", "--resume", out, "--json", *more)
    assert code == 0
    assert json.loads(output.out)["evaluations"]["large"]["tasks"] == 40
    assert not (out / "small" / ".eval.json.123").exists()


@pytest.mark.parametrize("line", ['{"task_hash": "%s"}', '{"task_hash": "%s", "member": "x"}'])
def test_a_line_that_is_no_episode_is_named(capsys, tmp_path, sums, line):
    out = tmp_path / "e"
    with serving(knowing) as server:
        assert run(capsys, *words(sums, server.url, out))[0] == 0
        one = next(journal.rows(out / "episodes.jsonl"))
        with (out / "episodes.jsonl").open("a") as file:
            file.write(line % one["task_hash"] + "\n")
        code, output = run(capsys, "eval", "--resume", out)
    assert (code, output.err.count("\n")) == (2, 1)
    assert "is no episode" in output.err


HALVES = """
from agentrl import ListTasks, Task, ToolEnv


class Halves(ToolEnv):
    \"\"\"Texts that no file can hold.\"\"\"

    max_turns = 2

    def task_source(self, split):
        return ListTasks([Task("say", id="a\\ud800", meta={"difficulty": "\\ud800"})])

    def start(self, task):
        return "\\ud800"

    def reply(self, turn):
        return "\\udfff"

    def reward(self, task, trajectory):
        return {"\\ud800": 1.0}
"""


def test_halves_of_characters_end_no_evaluation(capsys, tmp_path):
    (tmp_path / "halves.py").write_text(HALVES)
    env, out = f"{tmp_path / 'halves.py'}:Halves", tmp_path / "e"
    with serving(lambda body: said("yes")) as server:
        assert run(capsys, *words(env, server.url, out))[0] == 0
    local = ("--env", env, "--tasks", 1, "--rollout.max_turn_tokens", 8, "--out", tmp_path / "here")
    assert run(capsys, "eval", *local)[0] == 0
    for folder in (out, tmp_path / "here"):
        whole = (folder / "summary.json").read_bytes()
        assert run(capsys, "eval", "--resume", folder)[0] == 0
        assert (folder / "summary.json").read_bytes() == whole


FULL_EVALUATION = """
import sys
from pathlib import Path
from agentrl.cli import main
from tests.chat_server import said, serving

env, folder = %r, Path(sys.argv[1])
with serving(lambda body: said("1" * 300)) as server:
    words = ["eval", "--env", env, "--base-url", server.url, "--model", "m", "--out", folder / "e"]
    print("eval", main([str(word) for word in words]))
    print(sorted(path.name for path in (folder / "e").iterdir()))
    print("rescore", main(["rescore", str(folder / "e")]))
"""


@pytest.mark.parametrize("size", ["12k", "20k", "36k"])
def test_wherever_the_disk_is_full_that_is_told_and_no_file_is_half(tmp_path, sums, size):
    folder = tmp_path / "small"
    folder.mkdir()
    if not can_mount(folder):
        pytest.skip("this user may not mount a file system of its own")
    said_ = inside(folder, FULL_EVALUATION % sums, size=size)
    assert "eval 1" in said_ or "rescore 1" in said_
    assert "/." not in said_.replace("'.lock'", "")


def told(row):
    return json.dumps({k: v for k, v in row.items() if k != "metrics"}, sort_keys=True)


FULL = """
import resource, sys
from pathlib import Path
from agentrl.errors import RunError
from agentrl.journal import Journal

path = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
lines = Journal(path)
for number in range(100):
    try:
        lines.add({"number": number})
    except RunError as error:
        sys.exit(str(error))
"""


def test_a_full_disk_is_told_in_a_line_and_whole_lines_stay(tmp_path):
    path = tmp_path / "lines.jsonl"
    found = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True)
    assert (found.returncode, found.stderr.count("\n")) == (1, 1)
    assert "lines.jsonl: cannot be written (File too large)" in found.stderr
    assert "--resume" in found.stderr
    whole = list(journal.rows(path))
    assert [row["number"] for row in whole] == list(range(len(whole)))
    assert len(whole) > 3
    again = journal.Journal(path)
    again.add({"number": len(whole)})
    again.close()
    assert len(list(journal.rows(path))) == len(whole) + 1
