"""The page of `agentrl report` and its Markdown twin: the same words, harmless, and readable."""

from __future__ import annotations

import html as entities
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.cli.entry import main
from agentrl.config import TrainConfig
from agentrl.metrics import METRICS
from agentrl.report.charts import svg
from agentrl.report.document import (
    Answer,
    Chart,
    Command,
    Document,
    Section,
    Table,
    Transcripts,
    Words,
)
from agentrl.report.facts import facts_of
from agentrl.report.markdown import markdown
from agentrl.report.measured import measured
from agentrl.report.page import html
from agentrl.report.panels import Line, Panel
from agentrl.report.sections import document
from agentrl.report.series import Curve
from agentrl.report.transcripts import Said, Told
from agentrl.report.verdict import Verdict
from agentrl.training import train
from tests.browser import browsing, faint, nameless
from tests.reported import facts_with, line, write_evaluation, write_run
from tests.viewed import HOSTILE

ZEROS, ONES = [0.0] * 12, [1.0] * 12
OURS = "![x](http://127.0.0.1/x.png) <img src='http://127.0.0.1/y.png'> @somebody ```` | $x^2$"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs, and the report of both."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "one", heldout={0: ZEROS, 3: ONES})
    write_run(root / "two", heldout={0: ZEROS, 2: ZEROS}, status="stopped", model="other")
    assert main(["report", str(root / "one"), str(root / "two")]) == 0
    return root


@pytest.fixture(scope="module")
def told(runs):
    return document([facts_of(str(runs / name)) for name in ("one", "two")], lambda text: text)


@pytest.fixture(scope="module")
def chromium():
    with browsing() as browser:
        yield browser


def hostile(text: str) -> Document:
    """A report in which every word is somebody else's."""
    panel = Panel("p", text, text, "step", "y", lines=(Line(Curve((1, 2), (0, 1)), 0),))
    table = Table(text, ("", text), ((text, text),))
    said = Told("best", "", text, 1.0, text, 1, 1, (Said(text, text), Said(text, "")))
    blocks = (
        *(Words(text), table, Chart(text, text, (panel,), ((text, 0, True),), table)),
        *(Command(text), Transcripts(text, (said,))),
    )
    verdict = Verdict("open", text, (text,))
    answer = Answer(text, text, verdict)
    return Document(text, (answer,), (text,), (Section("s", text, blocks),), text)


def test_a_page_asks_for_nothing_complains_of_nothing_and_fits(runs, chromium):
    for width, dark in ((1280, False), (400, True)):
        page = chromium.open(runs / "one" / "report.html", width=width, height=900, dark=dark)
        assert (page.errors, page.requests) == ([], [])
        assert page.js("document.documentElement.scrollWidth") == width
        assert faint(page) == []
        assert nameless(page) == []
        page.close()


def test_every_chart_has_a_title_a_description_and_ids_of_its_own(runs, chromium):
    page = chromium.open(runs / "one" / "report.html")
    named = page.js(
        """[...document.querySelectorAll('svg[role=img]')].map(chart =>
        chart.getAttribute('aria-labelledby').split(' ')
        .map(id => document.getElementById(id).textContent.length > 0))"""
    )
    assert len(named) > 10
    assert named == [[True, True]] * len(named)
    assert page.js(
        """(() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
        return ids.length === new Set(ids).size; })()"""
    )
    assert page.js("[...document.querySelectorAll('svg text')].every(t => t.textContent.trim())")
    assert page.js("document.querySelectorAll('script, img, link, iframe').length") == 0
    page.close()


def test_a_page_can_be_read_with_the_keyboard(runs, chromium):
    page = chromium.open(runs / "one" / "report.html")
    page.press("Tab", 9)
    assert page.js("document.activeElement.className") == "skip"
    page.press("Enter", 13)
    assert page.js("location.hash") == "#main"
    assert page.js("[...document.querySelectorAll('nav a')].every(a => document.querySelector("
                   "a.getAttribute('href')))")  # fmt: skip
    page.js("document.querySelector('summary').focus()")
    page.press("Enter", 13)
    assert page.js("document.querySelector('details').open")
    page.close()


@pytest.mark.parametrize("text", [HOSTILE, OURS])
def test_what_others_wrote_stays_text(chromium, tmp_path, text):
    path = tmp_path / "page.html"
    path.write_text(html(hostile(text)))
    page = chromium.open(path)
    assert (page.errors, page.requests) == ([], [])
    assert page.js("document.querySelectorAll('script, img').length") == 0
    shown = page.js("document.querySelector('.said').textContent")
    assert shown.startswith(text[:20])
    assert not re.search("[\x00-\x08\x1b\u202e]", path.read_text())
    page.close()


def test_in_markdown_too():
    text = markdown(hostile(f"{HOSTILE} {OURS}"))
    outside = re.sub(r"^(`{3,})text\n.*?\n\1$", "", text, flags=re.S | re.M)
    assert outside.count("owned") > 5
    for live in ("<", "@", "://", "\x1b", "\u202e"):
        assert live not in outside
    assert re.findall(r"(?<!\\)[`\[!$]", outside) == []
    rows = [line for line in outside.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}


def test_the_twin_says_the_same_numbers(told, runs):
    page = entities.unescape((runs / "one" / "report.html").read_text())
    twin = entities.unescape((runs / "one" / "report.md").read_text())
    twin = re.sub(r"\\(.)", r"\1", twin)
    for answer in told.answers:
        for said in (answer.of, answer.about, answer.verdict.text, *answer.verdict.notes):
            assert said in page
            assert said in twin
    cells = [
        cell
        for section in told.sections
        for block in section.blocks
        for table in (block, getattr(block, "numbers", None))
        if isinstance(table, Table)
        for row in table.rows
        for cell in row
    ]
    assert len(cells) > 150
    assert [cell for cell in cells if cell not in page or cell not in twin] == []
    states = [f"({state})" for section in told.sections if section.name == "health"
              for one in section.blocks[1].findings for state in one.states]  # fmt: skip
    assert twin.count("(look)") == states.count("(look)")


def test_the_sections_come_in_the_order_of_questions(told):
    assert [section.name for section in told.sections] == [
        *("curves", "selection", "costs", "tools", "stops"),
        *("health", "transcripts", "runs", "settings", "again"),
    ]
    charts = [b for section in told.sections for b in section.blocks if isinstance(b, Chart)]
    axes = [[panel.x for panel in chart.panels] for chart in charts[:2]]
    assert axes == [["step", "seconds of training", "trained tokens"]] * 2
    assert [answer.of for answer in told.answers] == ["one", "two", "two against one"]
    assert told.answers[2].verdict.notes[0].startswith("They differ in more")


def test_the_same_run_makes_the_same_page_to_the_byte(told):
    one = replace(told, sections=told.sections[:2])
    assert html(one) == html(one)
    assert "20" + "26" not in svg(panel())


def panel(**changes):
    curve = Curve((1, 2, 3), (0.25, 0.5, 0.75))
    return replace(Panel("p", "t", "d", "step", "y", lines=(Line(curve, 0),)), **changes)


@pytest.mark.parametrize("kind", ["lines", "stack", "cells"])
def test_a_chart_of_one_point_or_none_is_drawn(kind):
    for curve in (Curve((), ()), Curve((4,), (0.5,), (0.25,), (0.75,))):
        cells = ((0.5, None, 0.0, 1.0),) if curve.x else ()
        one = panel(kind=kind, lines=(Line(curve, 9, dots=True),), cells=cells, extent=(4, 4))
        assert svg(one).startswith('<svg class="')


def test_colours_are_the_page_s_own_and_text_is_text():
    drawn = svg(panel(share=True))
    assert re.findall(r"#[0-9a-f]{6}\b", drawn) == []
    assert "var(--c0)" in drawn
    assert re.search(r"<text[^>]*>50%</text>", drawn)


def test_small_numbers_on_an_axis_keep_their_digits():
    tiny = Curve((1, 2), (0.0, 0.0004))
    assert re.search(r">0.0002</text>", svg(panel(lines=(Line(tiny, 0),))))


def test_settings_that_differ_and_secrets(runs):
    other = facts_of(str(runs / "two"))
    changed = other.settings | {"select.m": 2, "env.options.api_key": "abcdefghij"}
    both = [facts_of(str(runs / "one")), replace(other, settings=changed)]
    found = document(both, lambda text: text.replace("abcdefghij", "***"))
    (table,) = (b for s in found.sections if s.name == "settings" for b in s.blocks)
    dash = "\N{EN DASH}"
    assert table.rows == (("env.options.api_key", dash, "***"), ("select.m", "4", "2"))


def test_one_run_shows_what_was_given(runs):
    found = document([facts_of(str(runs / "one"))], str)
    (table,) = (b for s in found.sections if s.name == "settings" for b in s.blocks)
    assert table.rows == (("select.n", "8", "--n"),)


def test_a_run_that_has_not_done_a_step_is_told_of(tmp_path):
    folder = write_run(tmp_path / "run", steps=0, status="failed")
    found = document([facts_of(str(folder))], str)
    assert [section.name for section in found.sections] == ["runs", "settings", "again"]
    assert "It failed" in markdown(found)
    assert html(found)


def test_a_run_that_was_trained_is_told_of_in_full(tmp_path):
    config = TrainConfig.model_validate(
        {
            "select": {"n": 4, "m": 2},
            "train": {"steps": 2, "tasks_per_step": 2},
            "heldout": {"tasks": 3},
            "run": {"out": str(tmp_path), "name": "run"},
        }
    )
    train(config, command=["agentrl", "train"])
    facts = facts_of(str(tmp_path / "run"))
    assert (facts.status, facts.done, facts.missing) == ("done", 2, ())
    names = [section.name for section in document([facts], str).sections]
    assert {"curves", "selection", "costs", "stops", "health", "transcripts"} <= set(names)


def test_learning_from_trajectories_has_a_page(tmp_path):
    rows = [{"sft/loss": 2.0 - i / 4, "sft/heldout": 2.0 - i / 5} for i in range(4)]
    run = {"status": "done", "kind": "sft", "loss": {"before": 2.0, "after": 1.4}}
    found = document([replace(facts_with(rows), kind="sft", run=run)], str)
    assert "curves" in [section.name for section in found.sections]
    assert "1.250" in markdown(found)
    assert "Loss" in html(found)


def test_evaluations_are_set_side_by_side(tmp_path, capsys):
    rows = [line(f"t{i}", float(i % 2), difficulty="easy") for i in range(8)]
    one = write_evaluation(tmp_path / "one", rows)
    two = write_evaluation(tmp_path / "two", [line(f"t{i}", 1.0) for i in range(8)])
    assert main(["report", str(one), str(two), "--json", "--out", str(tmp_path / "both")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [verdict["of"] for verdict in found["verdicts"]] == ["one", "two", "two against one"]
    twin = (tmp_path / "both" / "report.md").read_text()
    assert "| accuracy | 0.500 | 1.000 |" in twin
    assert "| difficulty easy | 0.500 |" in twin


def test_accuracy_by_kind_of_task_is_told_before_and_after_or_run_by_run():
    told = [{"mean": mean, "low": mean - 0.1, "high": mean + 0.1} for mean in (0.25, 0.75)]
    before, after = ({"by": {"difficulty": {"easy": one}}} for one in told)
    facts = replace(facts_with([{}]), run={"heldout": {"before": before, "after": after}})
    (table,) = measured((("one", facts),))
    assert table.rows == (
        ("difficulty easy", "0.250", "0.150 to 0.350", "0.750", "0.650 to 0.850"),
    )
    (both,) = measured((("one", facts), ("two", facts)))
    assert both.head == ("held-out tasks", "one", "95% interval", "two", "95% interval")
    assert both.rows[0][1:3] == both.rows[0][3:5] == ("0.750", "0.650 to 0.850")


ODD = st.sampled_from([None, 3, -1.5, "x", [], ["y"], {}, {"z": {"z": 1}}, True])
RUN = ("seconds", "tokens", "heldout", "loss", "launches", "command", "model", "env", "n", "m", "k")


@given(
    kind=st.sampled_from(["train", "sft", "evaluation"]),
    run=st.dictionaries(st.sampled_from(RUN), ODD),
    row=st.dictionaries(st.sampled_from(sorted(METRICS)), ODD),
    heldout=ODD,
)
def test_whatever_files_hold_a_report_is_made(kind, run, row, heldout):
    row.pop("step", None)
    run["heldout"] = {"before": heldout, "after": {"by": heldout}}
    facts = replace(facts_with([row, {}]), kind=kind, run={"status": "done", **run})
    assert markdown(document([facts, facts], str))


def test_the_command_says_the_verdict_and_where_it_is(runs, capsys):
    assert main(["report", "one", "--runs", str(runs)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Held-out accuracy rose: 0.000")
    assert lines[1:] == [str(runs / "one" / f"report.{kind}") for kind in ("html", "md")]
    assert main(["report", *["one"] * 9, "--runs", str(runs)]) == 2
    assert "Give 8 at most" in capsys.readouterr().err
    (runs / "file").touch()
    assert main(["report", "one", "--runs", str(runs), "--out", str(runs / "file")]) == 2
    assert "cannot be written" in capsys.readouterr().err
