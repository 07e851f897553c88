"""The live view on a terminal: nothing tears it, and the terminal is as it was afterwards."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyte
import pytest

from agentrl.prints import BoundedStream, hidden
from agentrl.screen.live import Panel
from tests.terminal import started

ROOT = Path(__file__).parent.parent
SHOWN, HIDDEN = b"\x1b[?25h", b"\x1b[?25l"
NOISY = '''
import os
import subprocess
import sys

import agentrl


class Noisy(agentrl.ToolEnv):
    """Prints in every way that there is."""

    @classmethod
    def tasks(cls, split):
        return agentrl.ListTasks([agentrl.Task(f"Say {i}.") for i in range(40)], split=split)

    def reward(self, task, trajectory):
        print("\\x1b[2Jfrom \\x1b[31mreward")
        print("half a line", end="")
        os.write(1, b"from C\\n")
        subprocess.run(["sh", "-c", "echo from a child; echo and its errors >&2"])
        return float(len(trajectory.messages) % 2 + trajectory.member % 3)
'''
RUN = """
import os, sys, time, warnings
from pathlib import Path
from agentrl.console import showing
from agentrl.events import Phased, Played, Started, Warned
from agentrl.prints import bound_streams, bounded
bound_streams()
with showing(sys.argv[2] if len(sys.argv) > 2 else "auto", sys.stdout, os.environ) as listeners:
    def tell(event):
        for listener in listeners: listener(event)
    tell(Started(Path("runs/a"), "tool_math", "tiny", "transformers", 32, 8, 60, 4, 1))
    tell(Phased("rollout", True))
    exec(sys.argv[1])
print("afterwards")
"""
WAIT = "time.sleep(60)"


@pytest.fixture
def shown(tmp_path):
    """Start the view of a run that does something, on a terminal."""

    terminals = []

    def run(work, *more, **how):
        how.setdefault("environ", {})
        paths = os.pathsep.join((str(ROOT), str(ROOT / "environments"), str(ROOT / "tools")))
        how["environ"] = {"PYTHONPATH": paths, **how["environ"]}
        terminals.append(started(["-c", RUN, work, *more], tmp_path, **how))
        return terminals[-1]

    yield run
    for terminal in terminals:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()


def panel(terminal):
    """The lines of the panel that stands there: exactly one, whole."""
    lines = terminal.lines()
    tops = [i for i, line in enumerate(lines) if line.startswith("╭")]
    assert len(tops) == 1, terminal.text()
    found = lines[tops[0] : lines.index(next(x for x in lines if x.startswith("╰"))) + 1]
    width = len(found[0])
    assert all(len(line) == width and line[-1] in "╮│╯" for line in found), terminal.text()
    return found


def test_the_last_frame_stays_and_what_comes_after_stands_below_it(shown):
    terminal = shown("time.sleep(0.6)")
    assert terminal.end() == 0
    lines = terminal.lines()
    assert "tool_math · tiny · n 32 → m 8" in panel(terminal)[1]
    assert lines[lines.index("afterwards") - 1].startswith("╰")
    assert terminal.raw.count(HIDDEN) == terminal.raw.count(SHOWN) == 1
    assert b"\x1b[1m" in terminal.raw


PRINTS = """
with bounded():
    print("\\x1b[2J an environment prints")
sys.stderr.write("a library warns\\n")
os.write(1, b"C code writes\\n")
os.system("echo a child prints")
time.sleep(0.6)
"""


def test_whatever_is_printed_meanwhile_does_not_tear_the_panel_and_is_counted(shown):
    terminal = shown(PRINTS)
    terminal.until(lambda: "4 lines printed" in terminal.text())
    for words in ("environment prints", "library warns", "C code", "a child"):
        assert words not in terminal.text()
    assert terminal.end() == 0
    panel(terminal)
    # There was no log to keep it, so it comes afterwards.
    assert "an environment prints" in terminal.text()


def test_a_warning_stands_above_the_panel_once_and_is_counted(shown):
    work = "\n".join(
        f'tell(Warned("step {i}: it is \\x1b[31mbroken")); time.sleep(0.3)' for i in range(3)
    )
    terminal = shown(work)
    assert terminal.end() == 0
    text = terminal.text()
    assert text.startswith("warning: step 0: it is \\x1b[31mbroken\n╭")
    assert text.count("warning: ") == 1
    assert "3 warnings" in text


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)]
)
def test_a_signal_leaves_the_terminal_as_it_was(shown, number, code):
    terminal = shown(WAIT)
    terminal.until(lambda: "left ?" in terminal.text())
    terminal.send(number)
    assert terminal.end() == code
    assert terminal.raw.rindex(SHOWN) > terminal.raw.rindex(HIDDEN)
    panel(terminal)


def test_a_run_that_never_began_leaves_nothing():
    written, screen = io.StringIO(), pyte.Screen(100, 24)
    view = Panel(lambda: 0.0, rich=True)
    with view.shown_on(written):
        pyte.Stream(screen).feed(written.getvalue().replace("\n", "\r\n"))
        assert "getting ready" in screen.display[1]
    screen.reset()
    pyte.Stream(screen).feed(written.getvalue().replace("\n", "\r\n"))
    assert not "".join(screen.display).strip()


def test_a_process_that_shares_the_updates_of_another_shows_nothing(shown):
    terminal = shown("time.sleep(0.3)", environ={"RANK": "1"})
    assert terminal.end() == 0
    assert terminal.raw == b"afterwards\r\n"


def test_while_it_is_stopped_the_cursor_is_there(shown):
    terminal = shown(WAIT)
    terminal.until(lambda: "left ?" in terminal.text())
    # A terminal's only process does not stop for long, but it does all that goes with it.
    terminal.send(signal.SIGTSTP)
    terminal.until(lambda: terminal.raw.count(HIDDEN) == 2)
    assert terminal.raw.index(SHOWN) < terminal.raw.rindex(HIDDEN)
    terminal.send(signal.SIGTERM)
    assert terminal.end() == 143


def test_an_exception_leaves_the_terminal_as_it_was_and_is_read_below(shown):
    terminal = shown("time.sleep(0.3); raise ValueError('broken')")
    assert terminal.end() == 1
    assert terminal.raw.rindex(SHOWN) > terminal.raw.rindex(HIDDEN)
    assert terminal.text().endswith("ValueError: broken")
    panel(terminal)


def test_a_terminal_of_another_size_gets_another_frame(shown):
    terminal = shown(WAIT)
    terminal.until(lambda: "left ?" in terminal.text())
    terminal.resize(60)
    terminal.until(lambda: "╭" + "─" * 58 + "╮" in terminal.lines())
    terminal.send(signal.SIGTERM)
    assert terminal.end() == 143
    assert len(panel(terminal)[0]) == 60


@pytest.mark.parametrize(
    ("environ", "more"), [({"TERM": "dumb"}, ("auto",)), ({}, ("plain",)), ({}, ("json",))]
)
def test_where_there_is_no_panel_nothing_steers_the_terminal(shown, environ, more):
    terminal = shown("tell(Warned('a word'))", *more, environ=environ)
    assert terminal.end() == 0
    assert b"\x1b" not in terminal.raw
    assert ("warning: a word" in terminal.text()) == (more[0] != "json")


def test_without_colour_the_panel_is_the_same_in_words(shown):
    terminal = shown("time.sleep(0.3)", environ={"NO_COLOR": "1"})
    assert terminal.end() == 0
    panel(terminal)
    assert not re.search(rb"\x1b\[[\d;]*\b3\d[\d;]*m", terminal.raw)


def test_a_terminal_without_such_signs_gets_ascii(shown):
    terminal = shown("time.sleep(0.3)", environ={"PYTHONIOENCODING": "latin-1"})
    assert terminal.end() == 0
    assert terminal.raw.isascii()
    assert "| tool_math | tiny | n 32 -> m 8" in terminal.text()


def test_a_small_terminal_gets_what_has_room(shown):
    terminal = shown("time.sleep(0.6)", columns=50, rows=12)
    assert terminal.end() == 0
    assert terminal.frames[-2][0].startswith("╭")


@pytest.fixture
def noisy(tmp_path):
    (tmp_path / "noisy.py").write_text(NOISY)
    return ["-m", "agentrl", "train", "--env", "noisy.py:Noisy", "--n", "4", "--m", "2", "--steps",
            "2", "--tasks-per-step", "1", "--heldout.tasks", "0", "--rollout.max_turn_tokens", "4",
            "--name", "a"]  # fmt: skip


def logged(folder):
    return (folder / "runs/a/logs/attempt-001.log").read_text()


def environ():
    paths = (str(ROOT), str(ROOT / "environments"), str(ROOT / "tools"))
    return {"PYTHONPATH": os.pathsep.join(paths)}


def test_a_real_run_on_a_terminal_is_one_panel_and_its_prints_are_in_the_log(noisy, tmp_path):
    terminal = started(noisy, tmp_path, columns=80, environ=environ())
    assert terminal.end() == 0
    text = terminal.text()
    assert "step 2/2" in panel(terminal)[1]
    assert "printed, kept in the log" in text
    assert "done after step 2" in text
    assert b"\x1b[2Jfrom" not in terminal.raw
    for words in ("from reward", "half a line", "from C", "from a child", "and its errors"):
        assert words not in text
    for words in ("\\x1b[2Jfrom \\x1b[31mreward", "from C", "from a child", "and its errors"):
        assert words in logged(tmp_path)
    assert "\x1b" not in logged(tmp_path)


@pytest.mark.slow
def test_ctrl_c_is_answered_at_once_then_the_step_ends_and_the_run_is_saved(noisy, tmp_path):
    noisy[noisy.index("--steps") + 1] = "500"
    terminal = started(noisy, tmp_path, columns=80, environ=environ())
    terminal.until(lambda: "last kept" in terminal.text())
    terminal.key("\x03")
    terminal.until(lambda: "stopping after this step, then saving" in terminal.text())
    assert terminal.end() == 130
    assert "next: agentrl train --resume" in terminal.text()
    assert terminal.raw.rindex(SHOWN) > terminal.raw.rindex(HIDDEN)
    assert (tmp_path / "runs/a/checkpoints/latest").exists()
    assert " stopping after this step" in logged(tmp_path)


@pytest.mark.slow
def test_an_evaluation_has_its_panel_and_keeps_what_is_printed(noisy, tmp_path):
    words = ["-m", "agentrl", "eval", "--env", "noisy.py:Noisy", "--tasks", "6", "--k", "2",
             "--out", "e", "--rollout.max_turn_tokens", "4"]  # fmt: skip
    terminal = started(words, tmp_path, columns=80, environ=environ())
    assert terminal.end() == 0
    assert "test split · 6 tasks x 2" in panel(terminal)[1]
    assert "12/12" in terminal.text()
    assert "accuracy  " in terminal.text()
    (log,) = (tmp_path / "e/logs").iterdir()
    assert log.read_text().count("from C\n") == 12


@pytest.mark.parametrize("progress", ["plain", pytest.param("json", marks=pytest.mark.slow)])
def test_a_real_run_off_a_terminal_is_whole_lines_without_prints(noisy, tmp_path, progress):
    noisy += ["--progress", progress]
    text = (tmp_path / "noisy.py").read_text().replace("os.write", "# os.write")
    (tmp_path / "noisy.py").write_text(text.replace("subprocess.run(", "# subprocess.run("))
    done = subprocess.run(
        [sys.executable, *noisy], cwd=tmp_path, env=os.environ | environ(), capture_output=True,
        text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "\x1b" not in done.stdout + done.stderr
    assert "half a line" not in done.stdout
    if progress == "json":
        assert [json.loads(line)["step"] for line in lines[:2]] == [1, 2]
    else:
        assert [line.split()[:2] for line in lines[1:3]] == [["step", "1/2"], ["step", "2/2"]]
        assert lines[3] == "8 lines printed meanwhile: see logs/ in the run's folder"
    assert logged(tmp_path).count("from \\x1b[31mreward") == 8


def test_what_is_hidden_before_there_is_a_log_comes_into_it_or_out_at_the_end(capsys):
    from agentrl.prints import bounded, copied

    told, copies = [], []
    with hidden("authors", told.append):
        with bounded():
            sys.stdout.write("early\n")
        with copied(copies.append), bounded():
            sys.stdout.write("later\n")
        with bounded():
            sys.stdout.write("last\n")
        sys.stdout.write("a line of ours\n")
        assert isinstance(sys.stdout, BoundedStream)
    assert not isinstance(sys.stdout, BoundedStream)
    assert told == ["early\n", "later\n", "last\n"]
    assert copies == ["early\n", "later\n"]
    assert capsys.readouterr().out == "a line of ours\nlast\n"


def test_a_file_that_errors_go_to_still_gets_all_but_prints(capsys):
    with hidden("everything"):
        sys.stderr.write("a library warns\n")
    assert capsys.readouterr().err == "a library warns\n"
