"""What the live view says: events in, a screen of words out; no terminal and no clock."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from agentrl import disk
from agentrl.config import TrainConfig
from agentrl.events import (
    Episode,
    Evaluated,
    Evaluating,
    Learned,
    Measured,
    Phased,
    Picked,
    Played,
    Started,
    Stepped,
    Stopping,
    Warned,
)
from agentrl.glyphs import SPARKS
from agentrl.interval import Interval
from agentrl.record import RunFolder
from agentrl.screen.frame import bar, frame
from agentrl.screen.state import KNOWN, Screen, seen
from agentrl.screen.trend import trend
from agentrl.tomlfile import dump_toml
from agentrl.visible import visible
from docs.shots import live, recording
from docs.shots.replay import events_of
from tests.test_console import ROW

START = Started(Path("runs/a"), "tool_math", "tiny", "transformers", 32, 8, 60, 4, 1)
EPISODE = Episode(turns=2, tool_calls=1, tool_failures=0, tokens=50, correct=True)
PICKED = Picked(1, 32, 128, 4, 1, 0.11, 0.25, 21_000)
ROW_1 = {**ROW, "step": 1, "update/tokens": 21_000, "time/step": 14.5, "time/select": 0.1}
STEP_1 = Stepped(ROW_1, 60, 14.5, 855.5)


def after(*events, began=0.0):
    """The screen after events that come a second apart."""
    screen = Screen(began)
    for at, event in enumerate(events, 1):
        screen = seen(screen, event, float(at))
    return screen


def words(screen, now=10.0, width=100, **how):
    console = Console(width=200, file=io.StringIO(), color_system=None)
    with console.capture() as written:
        console.print(frame(screen, now, width, **how))
    return written.get().splitlines()


def line(screen, name, **how):
    """What stands behind a name."""
    found = [x.strip("│ ") for x in words(screen, **how) if x.startswith(f"│ {name}")]
    assert len(found) == 1, name
    return " ".join(found[0].removeprefix(name).split())


@pytest.fixture(scope="module")
def recorded():
    return recording.read(live.RECORDING)


def test_the_page_shows_the_screen_as_it_is_now(recorded):
    assert live.page(recorded) == live.PAGE.read_text(), "run: python -m docs.shots.live"


def test_the_picture_shows_the_screen_as_it_is_now_and_fetches_nothing(recorded):
    picture = live.IMAGE.read_text().replace("&#160;", " ")
    for part in live.text(recorded).splitlines()[1].split("  "):
        assert part.strip("│ ") in picture, "run: python -m docs.shots.live"
    assert "<title>" in picture
    assert "url(http" not in picture


def test_a_run_s_folder_tells_the_same_again(tmp_path):
    run = RunFolder(tmp_path / "a")
    run.path.mkdir()
    run.write_run({"env": "tool_math", "model": "tiny", "engine": "x", "n": 4, "m": 2})
    run.write_config(dump_toml(TrainConfig(train={"steps": 9}, update={"memory": "8GiB"})), {})
    run.write_metrics({**ROW_1, "select/tokens_kept": 9})
    run.write_metrics({**ROW_1, "step": 2, "time/rollout": 8.0})
    episode = {"turns": 2, "tool_calls": 1, "trained_tokens": 10, "correct": True,
               "task_id": "a", "outcomes": [[{"status": "timeout"}], []]}  # fmt: skip
    for kind, step, count in (("heldout", 1, 2), ("groups", 2, 4)):
        (run.path / kind).mkdir()
        disk.append(run.path / kind / f"{step:06d}.jsonl", [episode] * count)
    timed = events_of(run.path, 2, 0.5)
    recording.write(tmp_path / "events.jsonl", timed)
    again = recording.read(tmp_path / "events.jsonl")
    assert live.text(again) == live.text(timed)
    screen, now = live.screen_after(again)
    assert "step 2/9" in words(screen, now)[1]
    assert line(screen, "rollout", now=now).endswith(
        "2/4 · 5 tok/s · 2.0 turns · 1.0 tools, 100% failed"
    )
    assert line(screen, "held-out accuracy").startswith("1.00")
    assert line(screen, "memory").endswith("limit 8.0 GiB")


AT_80 = """\
╭──────────────────────────────────────────────────────────────────────────────╮
│ tool_math · tiny · n 32 → m 8 · max_variance     step 17/30 · 39s · left 31s │
│                                                                              │
│ rollout   ━━━━━━━     90/128 · 2.1k tok/s · 2.0 turns · 1.0 tools, 2% failed │
│ select                waiting · last kept 16 of 128 · spread 0.02 → 0.15     │
│ update                waiting · last 0.3s · 2.2k tokens · grad 2.15          │
│                                                                              │
│                              now mean of 10       best   trend               │
│ reward, all n               0.98       0.91   0.98 @16   ▁▂▃▄▅▆▇▇▇▇▇▇▇█▇█    │
│ held-out accuracy     0.86 ±0.07              0.86 @10   ▁█                  │
│ spread, all n               0.02       0.08              ▇███▆▄▄▃▄▄▃▃▂▂▂▁    │
│ spread, kept m              0.15       0.20              █████▇▇▆▇▇▅▃▄▂▃▁    │
│ cut off by a limit            0%         0%              ▁▁▁▁▁▁▁█▁██▁▁▁█▁    │
│ policy drift (KL)              0          0              ▅▁▂▅▅▄▆▇▇█▇▇▅▇▅▆    │
│                                                                              │
│ last step 1.9s · rollout 83% · select 0% · update 13% · sync 3%              │
│ memory    predicted 64.1 MiB · no new peak · limit 2.0 GiB                   │
│                                                                              │
│ runs/tool_math-001 · Ctrl-C finishes this step, saves and stops              │
╰──────────────────────────────────────────────────────────────────────────────╯
"""
IN_ASCII = """\
+------------------------------------------------------------------------------+
| tool_math | tiny | n 32 -> m 8 | max_variance    step 17/30 | 39s | left 31s |
|                                                                              |
| rollout   =======     90/128 | 2.1k tok/s | 2.0 turns | 1.0 tools, 2% failed |
| select                waiting | last kept 16 of 128 | spread 0.02 -> 0.15    |
"""


def test_eighty_columns_hold_the_same_facts(recorded):
    assert live.text(recorded, 80) == AT_80


def test_without_other_signs_it_is_ascii(recorded):
    found = live.text(recorded, 80, rich=False)
    assert found.isascii()
    assert found.startswith(IN_ASCII)
    assert "0.86 +-0.07" in found


NAMES = st.text(min_size=1, max_size=40)


@settings(max_examples=30)
@given(NAMES, NAMES, st.integers(40, 130), st.booleans())
def test_every_line_is_as_wide_as_the_panel_whatever_names_hold(env, path, width, rich):
    start = Started(Path(path.replace("\0", "?")), env, env, "x", 32, 8, 60, 4, 1)
    found = words(after(start, Warned(path), STEP_1), width=width, rich=rich)
    assert {cell_len(x) for x in found} == {min(width, 100)}
    assert all(visible(x) == x for x in found)


def test_before_anything_is_known_it_says_so():
    lines = words(after())
    assert (len(lines), lines[1].strip("│ ")) == (3, "getting ready")


def test_episodes_fill_the_bar_and_tell_their_turns_and_calls():
    played = (Played("rollout", i, 128, EPISODE, 1) for i in range(1, 33))
    screen = after(START, Phased("rollout", True), *played)
    assert line(screen, "rollout", now=42.0) == (
        "━━━━━ 32/128 · 40 tok/s · 2.0 turns · 1.0 tools, 0% failed"
    )
    assert line(screen, "select") == "waiting"
    assert line(screen, "update") == "waiting"


def test_the_choice_is_told_with_the_spread_before_and_after():
    screen = after(START, PICKED)
    assert line(screen, "select") == (
        f"{'━' * 20} 4/4 groups · kept 32 of 128 · spread 0.11 → 0.25 · 1 flat"
    )


def test_an_update_counts_its_micro_batches_and_memory_that_ran_out_begins_anew():
    screen = after(START, PICKED, Phased("update", True))
    assert line(screen, "update") == "begins · 21.0k tokens"
    screen = seen(screen, Learned(3, 4), 9.0)
    assert line(screen, "update") == f"{'━' * 15} 3/4 micro-batches · 21.0k tokens"
    assert line(seen(screen, Learned(1, 8), 9.0), "update").startswith("━━╸ 1/8")


def test_a_step_that_is_done_is_followed_by_the_next_one():
    screen = after(START, PICKED, Learned(1, 1), STEP_1)
    assert "step 2/60 · 10s · left 14m10s" in words(screen)[1]
    assert line(screen, "update") == "waiting · last 2.9s · 21.0k tokens · grad 0.41"
    assert line(screen, "last step") == "14.5s · rollout 77% · select 1% · update 20% · sync 0%"
    assert line(screen, "reward, all n") == "0.61 0.61 0.61 @1 ▄"


def test_a_step_without_contrast_says_that_nothing_was_learned():
    screen = after(START, Stepped({**ROW_1, "update/tokens": 0}, 60, 1.0, 1.0))
    assert line(screen, "update") == "waiting · no group of the last step had contrast"


def test_time_left_counts_down_between_steps_and_not_below_zero():
    screen = after(START, Stepped(ROW_1, 60, 14.5, 100.0))
    assert "left 1m32s" in words(screen, now=10.0)[1]
    assert "left 0s" in words(screen, now=200.0)[1]


@pytest.mark.parametrize(
    ("row", "memory", "told"),
    [
        ({}, None, "predicted - · used -"),
        ({"plan/predicted_bytes": 2**30, "update/peak_bytes": 2**29}, 2**33,
         "predicted 1.0 GiB · used 512.0 MiB · limit 8.0 GiB"),
        ({"plan/predicted_bytes": 2**20, "update/peak_bytes": 0}, None,
         "predicted 1.0 MiB · no new peak"),
    ],
)  # fmt: skip
def test_memory_is_told_as_predicted_and_as_used(row, memory, told):
    start = Started(Path("a"), "e", "m", "x", 4, 2, 60, 1, 1, memory=memory)
    assert line(after(start, Stepped({**ROW_1, **row}, 60, 1.0, 1.0)), "memory") == told


def test_play_ahead_of_the_step_says_so():
    screen = after(START, Phased("rollout", True), Played("rollout", 1, 4, EPISODE, 3))
    assert "step 3, ahead" in line(screen, "rollout")


def test_held_out_tasks_have_a_bar_only_while_they_are_attempted():
    screen = after(START, Phased("eval", True), Played("heldout", 1, 4, EPISODE))
    assert line(screen, "held-out  ").startswith("━━━━━ 1/4 · accuracy so far 1.00")
    done = after(START, Phased("eval", True), Measured(0, Interval(0.5, 0.4, 0.6), 4, 1.0),
                 Phased("eval", False))  # fmt: skip
    assert len(words(done)) == len(words(screen)) - 1
    assert line(done, "held-out accuracy") == "0.50 ±0.10 0.50 @0 ▄"


def test_a_run_that_goes_on_shows_the_steps_before():
    past = tuple({**ROW_1, "step": s, "reward": s / 10, "heldout": 0.1 * s} for s in (1, 2, 3))
    start = Started(Path("a"), "e", "m", "x", 4, 2, 60, 1, 4, past=past)
    screen = after(start)
    assert "step 4/60" in words(screen)[1]
    assert line(screen, "reward, all n") == "0.30 0.20 0.30 @3 ▁▅█"
    assert line(screen, "held-out accuracy") == "0.30 0.30 @3 ▁▄█"


def test_the_same_warning_of_another_step_is_counted_and_not_shown_again():
    screen = after(START, *(Warned(f"step {i}: {i} of 9 broke") for i in range(5)), Warned("other"))
    assert screen.fresh == ("step 0: 0 of 9 broke", "other")
    assert line(screen, "said") == "6 warnings"


def test_only_the_last_warnings_are_remembered():
    letters = "abcdefghijklmnop"
    screen = after(*(Warned(letter) for letter in letters))
    assert screen.warned == len(letters)
    assert len(screen.warnings) == KNOWN


def test_the_foot_says_what_ctrl_c_does_now():
    assert words(after(START))[-2].strip("│ ") == (
        "runs/a · Ctrl-C finishes this step, saves and stops"
    )
    assert "Ctrl-C again stops now" in words(after(START, Stopping()))[-2]


def test_when_it_is_over_nothing_is_said_of_time_left_or_of_keys():
    over = replace(after(START, PICKED, Learned(1, 1), STEP_1, Phased("eval", True)), over=True)
    assert "step 1/60 · 10s │" in words(over)[1]
    assert words(over)[-2].strip("│ ") == "runs/a"
    assert line(over, "update").startswith(f"{'━' * 20} done · last 2.9s")
    begun = Evaluating("shop", "my-model", "test", 10, 2, None)
    assert words(replace(after(begun), over=True))[-2].startswith("│ episodes")


def test_an_evaluation_shows_its_episodes_and_how_long_they_will_take():
    begun = Evaluating("shop", "my-model", "test", 10, 2, None, known=4)
    broken = Episode(1, 0, 0, 9, None)
    screen = after(begun, Played("eval", 5, 20, EPISODE), Played("eval", 6, 20, broken))
    lines = words(screen, now=5.0)
    assert "shop · my-model · test split · 10 tasks x 2" in lines[1]
    assert "left 28s" in lines[1]
    assert line(screen, "episodes").startswith("━━━━━━ 6/20 · accuracy so far 1.00 · 1 not scored")
    assert "without --out nothing is kept" in lines[-2]


def test_a_suite_lists_what_is_done():
    done = Evaluated("shop", Interval(0.5, 0.4, 0.6), 20, 1)
    begun = Evaluating("gsm", "tiny", "test", 10, 1, Path("evals/a"))
    screen = after(done, Evaluated("bad", None, 3, 3), begun)
    assert [x.strip("│ ") for x in words(screen) if x.startswith("│ done")] == [
        "done      shop · accuracy 0.50 ±0.10 · 20 episodes · 1 not scored",
        "done      bad · nothing could be scored · 3 episodes · 3 not scored",
    ]
    assert "--resume goes on" in words(screen)[-2]


@given(st.lists(st.none() | st.floats(-1e9, 1e9), max_size=200), st.integers(0, 60))
def test_a_trend_has_room_and_its_ends_are_the_lowest_and_the_highest(values, width):
    found = trend(values, width)
    known = [v for v in values if v is not None]
    assert len(found) == min(width, len(known))
    assert set(found) <= set(SPARKS)
    if known and width >= len(known) and max(known) > min(known):
        assert found[known.index(max(known))] == SPARKS[-1]
        assert found[known.index(min(known))] == SPARKS[0]


@given(st.floats(-1, 2), st.integers(1, 40))
def test_a_bar_is_never_longer_than_its_room(part, size):
    assert len(bar(part, size)) <= size
    assert bar(1.0, size) == "━" * size
