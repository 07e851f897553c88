"""The page of `agentrl view` in a real browser; where there is none, these are skipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrl.cli.entry import main
from tests.browser import CHROMIUM, browser
from tests.viewed import HOSTILE, write_run

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")

DATA = Path(__file__).parent / "data"
CONTRAST = (DATA / "contrast.js").read_text()
NAMELESS = (DATA / "nameless.js").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two scripted runs, and the page of the first."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "run", token_budget=6000)
    write_run(root / "other", steps=1, rule="max_reward", tokens=False)
    assert main(["view", str(root / "run")]) == 0
    return root


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(chromium, folder):
    """The page, opened anew; at its end nothing was complained of and nothing asked for."""
    chromium.looks("light")
    chromium.call("Page.navigate", url="about:blank")
    chromium.open((folder / "run" / "view.html").as_uri())
    yield chromium
    assert (chromium.complaints, chromium.requests) == ([], [])


def current(page):
    """Name of the trajectory that is shown."""
    return page.run("document.querySelector('.tile[aria-current]').ariaLabel")


def test_what_a_tool_said_stays_text(page):
    said = page.run("document.querySelector('.card.tool .said').textContent")
    for piece in (
        "</script><script>",
        "<img src=x onerror=alert(1)>",
        "{{ 7*7 }}",
        "&lt;",
        "\U0001f600",
    ):
        assert piece in said
    for mark in ("U+001B", "U+202E", "U+202C", "U+0000"):
        assert mark in said
    assert not {"\x1b", "\u202e", "\0"} & set(said)
    assert page.run("document.title") == "run"
    assert page.run("document.querySelectorAll('img, iframe, object, embed').length") == 0


def test_a_failed_call_is_told_in_words_and_results_are_not(page):
    titles = page.run("[...document.querySelectorAll('.card.tool h3')].map((e) => e.textContent)")
    assert titles == ["look returned", "look failed"]


def test_keys_move_through_trajectories_tasks_and_steps(page):
    page.run("document.querySelector('.tile').click()")
    page.wait("document.querySelector('.tile[aria-current]') === document.querySelector('.tile')")
    first = current(page)
    page.press("ArrowRight")
    page.wait("document.querySelectorAll('.tile')[1].getAttribute('aria-current')")
    assert current(page) != first
    page.press("ArrowLeft")
    page.wait("document.querySelectorAll('.tile')[0].getAttribute('aria-current')")
    assert current(page) == first
    page.press("ArrowDown")
    page.wait("document.querySelector('#task').textContent.startsWith('1.')")
    page.press("ArrowUp")
    page.wait("document.querySelector('#task').textContent.startsWith('0.')")
    page.press("[")
    page.wait("document.querySelector('#scene').selectedOptions[0].text === 'step 1'")
    page.press("]")
    page.wait("document.querySelector('#scene').selectedOptions[0].text === 'step 2'")


def test_keys_show_only_the_kept_log_probs_help_and_filter(page):
    every = page.run("document.querySelectorAll('.tile').length")
    page.press("k")
    page.wait(f"document.querySelectorAll('.tile').length < {every}")
    assert page.run("document.querySelectorAll('.tile:not(.kept)').length") == 0
    page.press("k")
    page.press("l")
    page.wait("document.querySelector('.tokens .t')")
    assert page.run("document.querySelector('.unlikely').textContent").count("log-prob") >= 1
    page.press("?")
    page.wait("document.querySelector('#keys').open")
    page.press("Escape")
    page.wait("!document.querySelector('#keys').open")
    page.press("/")
    assert page.run("document.activeElement.id") == "filter"
    for letter in "2. where":
        page.press(letter)
    assert page.run("document.querySelectorAll('#tasks button').length") == 1
    page.press("Escape")
    assert page.run("document.activeElement.id") != "filter"


def test_buttons_work_by_keyboard_and_focus_stays_where_it_was(page):
    page.run("document.querySelector('.tile[aria-current]').focus()")
    before = current(page)
    page.press("ArrowLeft")
    page.wait("document.querySelector('#said').textContent.startsWith('no.')")
    page.wait("document.activeElement.matches('.tile[aria-current]')")
    assert current(page) != before
    page.run("document.querySelector('#tasks button[aria-current]').focus()")
    page.press("Tab")
    page.press("Enter")
    page.wait("document.querySelector('#task').textContent.startsWith('1.')")


def test_the_address_keeps_the_place(page):
    page.press("ArrowDown")
    page.wait("document.querySelector('#task').textContent.startsWith('1.')")
    page.press("ArrowLeft")
    page.wait("document.querySelector('#said').textContent.startsWith('no.')")
    shown, address = current(page), page.run("location.href")
    page.call("Page.navigate", url="about:blank")
    page.open(address)
    assert (current(page), page.run("document.querySelector('#task').textContent[0]")) == (
        shown,
        "1",
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_words_can_be_read_in_both_themes_and_nothing_is_wider_than_the_screen(page, scheme, width):
    page.looks(scheme, width)
    for key in ("", "l", "["):
        if key:
            page.press(key)
        page.wait("document.querySelector('.card')")
        found = page.run(CONTRAST)
        assert found["seen"] > 40
        assert found["bad"] == []
    assert page.run("document.documentElement.scrollWidth") <= width


def test_everything_that_is_seen_or_pressed_has_a_name(page):
    assert page.run("document.querySelectorAll('svg[role=img][aria-label]').length") == 1
    assert page.run("document.querySelectorAll('svg:not([aria-label])').length") == 0
    assert page.run(NAMELESS) == []
    page.press("?")
    assert page.run(NAMELESS) == []


def test_two_runs_stand_side_by_side(chromium, folder):
    out = folder / "two.html"
    assert main(["view", str(folder / "run"), str(folder / "other"), "--out", str(out)]) == 0
    chromium.looks("dark")
    chromium.open(out.as_uri(), "document.querySelectorAll('.side .card').length > 1")
    assert chromium.run("[...document.querySelectorAll('.who bdi')].map((e) => e.textContent)") == [
        "run",
        "other",
    ]
    chromium.press("s")
    chromium.wait("document.querySelectorAll('.side')[1].classList.contains('active')")
    assert chromium.run(CONTRAST)["bad"] == []
    assert chromium.run(NAMELESS) == []
    assert (chromium.complaints, chromium.requests) == ([], [])


def test_nothing_can_leave_the_page_even_if_it_tried(chromium, folder):
    chromium.open((folder / "run" / "view.html").as_uri())
    tried = """
    (async () => {
      const image = new Image();
      image.src = 'http://127.0.0.1:9/x.png';
      document.body.append(image);
      const script = document.createElement('script');
      script.textContent = 'document.title = "owned"';
      document.body.append(script);
      try { await fetch('http://127.0.0.1:9/'); return 'sent'; } catch { return document.title; }
    })()
    """
    assert chromium.run(tried) == "run"
    assert any("Content Security Policy" in text for text in chromium.complaints)
    chromium.complaints.clear()
    chromium.requests.clear()


def test_a_thousand_trajectories_are_there_in_less_than_two_seconds(chromium, folder, tmp_path):
    lines = (folder / "run" / "groups" / "000001.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    path = tmp_path / "run"
    (path / "groups").mkdir(parents=True)
    (path / "run.json").write_text((folder / "run" / "run.json").read_text())
    with (path / "groups" / "000001.jsonl").open("w") as file:
        for number in range(1000):
            row = rows[number % len(rows)] | {
                "task_id": f"task {number // 8}",
                "member": number % 8,
            }
            file.write(json.dumps(row) + "\n")
    assert main(["view", str(path)]) == 0
    chromium.open((path / "view.html").as_uri())
    assert chromium.run("document.querySelectorAll('#tasks button').length") == 125
    # What the browser measured, so that a busy machine between us and it is not counted.
    took = chromium.run("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert 0 < took < 2000
    assert HOSTILE.isprintable() is False
    assert (chromium.complaints, chromium.requests) == ([], [])
