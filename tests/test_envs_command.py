"""`agentrl envs`: looks at environments, checks of them, a new one, and a person as policy."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentrl.cli.entry import main
from agentrl.cli.envs_new import class_name
from agentrl.cli.score import score
from agentrl.visible import visible
from tests.terminal import started

HERE = Path(__file__).parent
GOOD = f"{HERE / 'bad_envs.py'}:Good"
HOSTILE = '''
import agentrl


class Hostile(agentrl.ToolEnv):
    """Writes what would steer a terminal."""

    def __init__(self, loud: bool = False):
        self.loud = loud

    @classmethod
    def tasks(cls, split):
        return agentrl.ListTasks([agentrl.Task(f"Ring {i}.") for i in range(40)], split=split)

    @agentrl.tool
    def ring(self) -> str:
        """Ring."""
        return "\\x1b[2J\\x07\\u202ebell\\r"

    def reply(self, turn):
        if turn.text == "break":
            raise ValueError("broken")

    def reward(self, task, trajectory):
        return None
'''


@pytest.fixture
def hostile(tmp_path):
    path = tmp_path / "hostile.py"
    path.write_text(HOSTILE)
    return str(path)


@pytest.fixture
def call(capfd, monkeypatch):
    """Run a command with lines on standard input: exit code, output, errors."""

    def run(*words, lines=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        code = main(["envs", *words])
        return code, *capfd.readouterr()

    return run


@pytest.fixture
def refused(call):
    def run(*words):
        code, out, err = call(*words)
        if "--json" in words:
            out, err = "", json.loads(out)["error"] + "\n"
        assert (code, out, err.count("\n")) == (2, "", 1)
        return err.rstrip("\n")

    return run


def test_a_check_that_finds_problems_ends_with_3_and_names_the_line(call):
    code, out, _ = call("check", GOOD.replace("Good", "PaysNobody"))
    assert code == 3
    line = next(line for line in out.splitlines() if " reference: " in line)
    assert "bad_envs.py:" in line
    assert "1 failed" in out.splitlines()[-1]


def test_a_check_that_finds_none_ends_with_0_and_gives_one_document(call):
    code, out, _ = call("check", GOOD, "--json")
    assert code == 0
    document = json.loads(out)
    assert document["ok"]
    assert {row["status"] for row in document["checks"]} == {"passed"}


def test_quietly_only_problems_and_the_sum_are_told(call):
    code, out, _ = call("check", GOOD, "-q")
    assert (code, out) == (0, f"{GOOD}: 17 passed\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("chekc", "tool_math"), "Did you mean check?"),
        (("check", "tool_mth"), "Did you mean tool_math?"),
        (("check",), "env: required"),
        (("check", "tool_math", "--env.dificulty", "easy"), "Did you mean difficulty?"),
        (("check", "tool_math", "--select.m", "3"), "not an option here"),
        (("check", "tool_math", "--seconds", "0"), "more than 0"),
        (("--json", "check"), "the action comes first. Write"),
        (("show", "tool_math", "--model", "no/model"), "no/model"),
        (("play", "tool_math", "--index", "-1"), "--index -1"),
        (("play", "tool_math", "--split", "tset"), "tset"),
        (("new", "1st"), "can't name a module"),
        (("new", "class"), "can't name a module"),
        (("new", "žába"), "can't name a module"),
        (("new", "../x"), "can't name a module"),
        (("new", "_x"), "left out"),
        (("new", "test_x"), "left out"),
        (("new", "random"), "would hide"),
        (("new", "agentrl"), "would hide"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_line(refused, words, message):
    assert message in refused(*words)


@pytest.mark.parametrize("action", ["show", "check", "play", "new"])
def test_every_action_has_a_help_with_two_examples(action, capsys):
    with pytest.raises(SystemExit) as end:
        main(["envs", action, "--help"])
    assert end.value.code == 0
    examples = capsys.readouterr().out.split("examples:\n")[1].splitlines()
    assert len(examples) == 2
    assert all(line.startswith(f"  agentrl envs {action} ") for line in examples)


def test_the_list_stays(call):
    code, out, _ = call("list", "--json")
    assert code == 0
    assert "tool_math" in [row["name"] for row in json.loads(out)]
    assert call()[1].count("tool_math") >= 1


def test_show_gives_the_text_that_a_policy_reads(call):
    code, out, _ = call("show", "tool_math", "--env.difficulty", "easy", "--json")
    assert code == 0
    shown = json.loads(out)
    assert shown["options"] == {"difficulty": "mixed", "calls": 0}
    assert shown["limits"]["max_turns"] == 6
    assert shown["tools"][0]["function"]["name"] == "calculator"
    assert shown["tools"][0]["timeout"] == 2.0
    for split in ("train", "test"):
        task = shown["tasks"][split]
        assert task["text"].endswith("<|im_start|>assistant\n")
        assert task["messages"][-1]["content"] in task["text"]
        assert '"name": "calculator"' in task["text"]
        assert task["tokens"] > 10
    assert shown["tasks"]["train"]["id"] != shown["tasks"]["test"]["id"]


def test_show_for_people_holds_the_prompt_options_and_limits(call):
    code, out, _ = call("show", "tool_math")
    assert code == 0
    for part in ("--env.difficulty [mixed]", "max_turns 6", "calculator 2 s", "<|im_start|>user"):
        assert part in out


def test_a_person_can_call_tools_and_answer(call):
    lines = "/tools\n/call look box=0\na0x\n"
    code, out, _ = call("play", GOOD, "--index", "0", lines=lines)
    assert code == 0
    assert out.startswith(f"{GOOD} · train task 0 of 179 · 4 turns at most\n[user]\n")
    assert out.count("look(box: integer)  Read the label of a box.") == 2
    assert "[tool look]\na0x" in out
    assert out.splitlines()[-3:] == [
        "stop answer · reward 1 · correct",
        "2 turns · 1 tool call, 0 failed",
        "the task's answer, which a policy is not shown: a0x",
    ]


def test_what_is_mistyped_is_told_and_asked_again(call):
    lines = "/cal\n/call\n/call look box\n/call look box=zero\n/call nothing\n/quit\n"
    code, out, _ = call("play", GOOD, lines=lines)
    assert code == 0
    for part in ("Did you mean /call?", "Write /call", "not an argument", "bad arguments",
                 "unknown tool nothing"):  # fmt: skip
        assert part in out
    assert "left before the end" in out


def test_a_call_that_was_refused_is_followed_by_what_would_have_worked(call):
    out = call("play", GOOD, lines="/call look bax=1\n")[1]
    assert "hint: Did you mean box? look(box: integer). Type /call look box=...\n" in out


def test_what_was_said_can_be_read_again_and_costs_no_turn(call):
    lines = "/help\n/call look box=0\n/history\n/task\na0x\n"
    code, out, _ = call("play", GOOD, "-q", "--json", lines=lines)
    assert (code, json.loads(out)["turns"]) == (0, 2)
    out = call("play", GOOD, "-q", lines=lines)[1]
    assert "/history  all that was said" in out
    assert "[assistant]\n-> look {'box': 0}\n[tool look]\na0x" in out
    assert out.count("How is box 0 labelled?") == 3


@pytest.mark.parametrize(
    ("parts", "reward", "told"),
    [
        ({"correct": 1.0}, 1.0, []),
        ({"correct": 1.0, "form": 0.25}, 1.25, ["  correct  1", "  form     0.25"]),
        ({"correct": 1.0}, 1.5, ["  correct     1", "  from tools  0.5"]),
    ],
)
def test_a_score_is_told_with_its_parts(parts, reward, told):
    found = {"stop": "answer", "reward": reward, "reward_parts": parts, "correct": True,
             "turns": 1, "tool_calls": 0, "tool_failures": 0, "answer": None}  # fmt: skip
    lines = score(found).splitlines()
    assert lines[0] == f"stop answer · reward {reward:g} · correct"
    assert lines[1:-1] == told


def test_on_a_terminal_the_prompt_counts_turns_and_keys_complete_and_bring_back(tmp_path):
    terminal = started(["-m", "agentrl", "envs", "play", GOOD], HERE.parent)
    terminal.until(lambda: "turn 1 of 4> " in terminal.text() + " ")
    terminal.key("/ca\t lo\t box=0\n")
    terminal.until(lambda: "turn 2 of 4>" in terminal.text())
    terminal.key("\x1b[A")
    terminal.until(lambda: "turn 2 of 4> /call look" in terminal.text().replace("  ", " "))
    terminal.key("\x15\x04")
    assert terminal.end() == 0
    assert "left before the end" in terminal.text()


@pytest.mark.parametrize("lines", ["", "/quit\n", "/call look box=1"])
def test_the_end_of_the_input_is_no_error(call, lines):
    code, out, _ = call("play", GOOD, "--json", lines=lines)
    assert code == 0
    assert json.loads(out)["stop"] is None


def test_an_answer_of_several_lines_ends_with_a_full_stop_alone(call):
    code, out, _ = call("play", GOOD, "--multiline", "--json", lines="one\n/two\n.\n")
    found = json.loads(out)
    assert code == 0
    assert found["messages"][-1]["content"] == "one\n/two"
    assert found["stop"] == "answer"


def test_output_of_tools_cannot_steer_the_terminal(call, hostile):
    code, out, _ = call("play", hostile, lines="/call ring\nhello\n")
    assert code == 0
    assert "\\x1b[2J\\x07\\u202ebell\\r" in out
    assert not set("\x1b\x07\u202e\r") & set(out)
    assert "no reward" in out


def test_an_environment_that_breaks_is_told_with_code_1(call, hostile):
    code, out, _ = call("play", hostile, lines="break\n")
    assert code == 1
    assert "broken" in out


def test_only_control_characters_are_escaped():
    assert visible("é漢🙂\n\t") == "é漢🙂\n\t"
    assert visible("\x00\x9b\u2028\ud800") == "\\x00\\x9b\\u2028\\ud800"


def test_a_process_that_is_piped_to_plays_too():
    done = subprocess.run(
        [sys.executable, "-m", "agentrl", "envs", "play", GOOD, "-q"],
        input="/call look box=0\na0x\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "> " not in done.stdout + done.stderr
    assert "reward" in done.stdout


def test_a_new_environment_passes_its_check_its_test_and_the_linter(call, tmp_path):
    code, out, _ = call("new", "two_stores", "--out", str(tmp_path))
    assert code == 0
    assert out.count("next: agentrl ") == 3
    env, test = tmp_path / "two_stores.py", tmp_path / "test_two_stores.py"
    assert "class TwoStores(agentrl.ToolEnv)" in env.read_text()
    assert call("check", str(env))[0] == 0
    for tool in (["pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(test)],
                 ["ruff", "check", "--config", str(HERE.parent / "pyproject.toml"), str(tmp_path),
                  "--no-cache"]):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", *tool], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_new_environment_has_types_that_mypy_believes(call, tmp_path):
    call("new", "store", "--out", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "store.py"),
         str(tmp_path / "test_store.py"), "--cache-dir", str(tmp_path / "cache")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_what_is_there_is_not_overwritten(call, tmp_path):
    (tmp_path / "test_store.py").write_text("mine")
    code, _, err = call("new", "store", "--out", str(tmp_path))
    assert code == 2
    assert "it is there already" in err
    assert (tmp_path / "test_store.py").read_text() == "mine"
    assert not (tmp_path / "store.py").exists()


def test_a_folder_that_cannot_be_written_is_told(call, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = call("new", "store", "--out", str(tmp_path / "file"))
    assert code == 2
    assert "cannot be written" in err


def test_a_class_is_named_after_its_module():
    assert [class_name(n) for n in ("store", "two_words", "x_1")] == ["Store", "TwoWords", "X1"]
