import io
import json
import sys
from pathlib import Path

import pytest

from agentrl.amounts import duration
from agentrl.console import describe, kind_of, listener, showing
from agentrl.events import Episode, Measured, Played, Started, Stepped, Warned
from agentrl.interval import Interval
from agentrl.metrics import METRICS
from agentrl.prints import bounded

ROW = {
    **dict.fromkeys(METRICS),
    "step": 41,
    "reward": 0.612,
    "select/spread_all": 0.11,
    "select/spread_kept": 0.25,
    "select/kept": 32,
    "select/of": 128,
    "select/flat": 1,
    "env/turns": 2.4,
    "env/tool_calls": 1.9,
    "env/tool_failures": 0.041,
    "mismatch/k3": -1e-9,
    "update/grad_norm": 0.41,
    "time/rollout": 11.2,
    "time/update": 2.9,
    "tokens/sampled": 34720,
}


def test_a_step_is_one_greppable_line_in_a_fixed_order():
    line = describe(Stepped(ROW, 200, 724.0, 2820.0))
    assert line == (
        "step 41/200 reward 0.61 heldout - spread 0.11>0.25 kept 32/128 flat 1 turns 2.4 "
        "tools 1.9 failed 4% kl 0.0000 grad 0.41 rollout 11.2s update 2.9s tok/s 3100 "
        "elapsed 12m04s left 47m00s"
    )


def test_a_step_without_contrast_has_no_update_to_show():
    row = {**ROW, "update/grad_norm": None, "select/spread_kept": None, "mismatch/k3": None}
    line = describe(Stepped(row, 200, 1.0, 1.0))
    assert "spread 0.11>-" in line
    assert "grad -" in line


def test_start_and_measurements_are_lines_too():
    start = Started(Path("runs/a"), "tool_math", "tiny", "transformers", 32, 8, 60, 4, 21)
    assert describe(start) == (
        "tool_math · tiny on transformers · n 32 -> m 8 · 4 tasks a step · 60 steps from step 21"
        " · runs/a · Ctrl-C saves and stops"
    )
    found = Measured(20, Interval(0.57, 0.5, 0.64), 200, 3.21)
    assert describe(found) == "held-out step 20 accuracy 0.570 [0.500, 0.640] tasks 200 took 3.2s"
    assert describe(Warned("x")) == "warning: x"
    assert describe(Played("rollout", 1, 2)) == ""


def test_json_progress_is_the_metrics_row():
    stream = io.StringIO()
    show = listener("json", stream)
    for event in (Stepped(ROW, 200, 1.0, 1.0), Warned("not a row")):
        show(event)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    assert json.loads(lines[0])["step"] == 41


class Tty(io.StringIO):
    def isatty(self):
        return True


XTERM = {"TERM": "xterm"}


@pytest.mark.parametrize(
    ("progress", "stream", "environ", "kind"),
    [
        ("auto", Tty(), XTERM, "live"),
        ("auto", Tty(), XTERM | {"CI": "1"}, "plain"),
        ("live", Tty(), XTERM | {"CI": "1"}, "live"),
        ("live", Tty(), {"TERM": "dumb"}, "plain"),
        ("live", Tty(), {}, "plain"),
        ("live", io.StringIO(), XTERM, "plain"),
        ("auto", io.StringIO(), XTERM, "plain"),
        ("json", Tty(), XTERM, "json"),
        ("off", Tty(), XTERM, "off"),
        ("plain", Tty(), XTERM | {"RANK": "1"}, "off"),
        ("auto", Tty(), XTERM | {"RANK": "0"}, "live"),
    ],
)
def test_the_panel_needs_a_terminal_that_can_show_it(progress, stream, environ, kind):
    assert kind_of(progress, stream, environ) == kind


def test_an_evaluation_in_lines_tells_each_tenth_and_in_json_each_episode():
    told = [describe(Played("eval", done, 25)) for done in range(1, 26)]
    assert [text for text in told if text][::9] == [
        "played 3 of 25 episodes",
        "played 25 of 25 episodes",
    ]
    stream = io.StringIO()
    listener("json", stream)(Played("eval", 1, 25, Episode(2, 1, 0, 9, True)))
    listener("json", stream)(Played("rollout", 1, 25))
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["episode"]["correct"]


@pytest.mark.parametrize(
    ("progress", "log", "told"),
    [("plain", "a/logs", "2 lines printed meanwhile: see a/logs\n"), ("plain", "", ""),
     ("json", "a/logs", "")],
)  # fmt: skip
def test_a_person_is_told_where_prints_went(progress, log, told, capsys):
    stream = io.StringIO()
    with showing(progress, stream, {}, log), bounded():
        sys.stdout.write("one\ntwo\n")
    assert stream.getvalue() == told
    assert capsys.readouterr().out == "one\ntwo\n"


def test_off_shows_nothing():
    assert listener("off", io.StringIO()) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0s"), (59.4, "59s"), (61, "1m01s"), (3600 * 2 + 420, "2h07m")]
)
def test_durations_read_like_clocks(seconds, text):
    assert duration(seconds) == text
