"""The page of `agentrl view` in a real browser; where there is none, these are skipped."""

from __future__ import annotations

import json

import pytest

from agentrl.cli.entry import main
from agentrl.view.book import Reader, write
from tests.browser import browsing, faint, nameless
from tests.viewed import HOSTILE, write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two scripted runs, and the page of the first."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "run", token_budget=6000)
    write_run(root / "other", steps=1, rule="max_reward", tokens=False)
    assert main(["view", str(root / "run")]) == 0
    return root


@pytest.fixture(scope="module")
def chromium():
    with browsing() as browser:
        yield browser


def opened(chromium, where, until="document.querySelector('.card')", **look):
    """A tab in which a page is drawn."""
    page = chromium.open(where, **look)
    page.until(until)
    return page


@pytest.fixture
def page(chromium, folder):
    """The page, opened anew; at its end nothing was complained of and nothing asked for."""
    page = opened(chromium, folder / "run" / "view.html")
    page.js("document.querySelector('#tasks button').click()")
    page.until("document.querySelector('#task').textContent.startsWith('0.')")
    yield page
    assert (page.errors, page.requests) == ([], [])
    page.close()


def current(page):
    """Name of the trajectory that is shown."""
    return page.js("document.querySelector('.tile[aria-current]').ariaLabel")


def test_what_a_tool_said_stays_text(page):
    said = page.js("document.querySelector('.card.tool .said').textContent")
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
    assert page.js("document.title") == "run"
    assert page.js("document.querySelectorAll('img, iframe, object, embed').length") == 0


def test_a_failed_call_is_told_in_words_and_results_are_not(page):
    titles = page.js("[...document.querySelectorAll('.card.tool h3')].map((e) => e.textContent)")
    assert titles == ["look returned", "look failed"]


def test_keys_move_through_trajectories_tasks_and_steps(page):
    page.js("document.querySelector('.tile').click()")
    page.until("document.querySelector('.tile[aria-current]') === document.querySelector('.tile')")
    first = current(page)
    page.press("ArrowRight")
    page.until("document.querySelectorAll('.tile')[1].getAttribute('aria-current')")
    assert current(page) != first
    page.press("ArrowLeft")
    page.until("document.querySelectorAll('.tile')[0].getAttribute('aria-current')")
    assert current(page) == first
    page.press("ArrowDown")
    page.until("document.querySelector('#task').textContent.startsWith('1.')")
    page.press("ArrowUp")
    page.until("document.querySelector('#task').textContent.startsWith('0.')")
    page.press("[")
    page.until("document.querySelector('#scene').selectedOptions[0].text === 'step 1'")
    page.press("]")
    page.until("document.querySelector('#scene').selectedOptions[0].text === 'step 2'")


def test_keys_show_only_the_kept_log_probs_help_and_filter(page):
    every = page.js("document.querySelectorAll('.tile').length")
    page.press("k")
    page.until(f"document.querySelectorAll('.tile').length < {every}")
    assert page.js("document.querySelectorAll('.tile:not(.kept)').length") == 0
    page.press("k")
    page.press("l")
    page.until("document.querySelector('.tokens .t')")
    assert page.js("document.querySelector('.unlikely').textContent").count("log-prob") >= 1
    page.press("?")
    page.until("document.querySelector('#keys').open")
    page.press("Escape", 27)
    page.until("!document.querySelector('#keys').open")
    page.press("/")
    assert page.js("document.activeElement.id") == "filter"
    for letter in "2. where":
        page.press(letter)
    assert page.js("document.querySelectorAll('#tasks button').length") == 1
    page.press("Escape", 27)
    assert page.js("document.activeElement.id") != "filter"


def test_buttons_work_by_keyboard_and_focus_stays_where_it_was(page):
    page.js("document.querySelector('.tile[aria-current]').focus()")
    before = current(page)
    page.press("ArrowLeft")
    page.until("document.querySelector('#said').textContent.startsWith('no.')")
    page.until("document.activeElement.matches('.tile[aria-current]')")
    assert current(page) != before
    page.js("document.querySelector('#tasks button[aria-current]').focus()")
    page.press("Tab", 9)
    page.press("Enter", 13)
    page.until("document.querySelector('#task').textContent.startsWith('1.')")


def test_the_address_keeps_the_place(chromium, page):
    page.press("ArrowDown")
    page.until("document.querySelector('#task').textContent.startsWith('1.')")
    page.press("ArrowLeft")
    page.until("document.querySelector('#said').textContent.startsWith('no.')")
    shown, address = current(page), page.js("location.href")
    page = opened(chromium, address)
    assert (current(page), page.js("document.querySelector('#task').textContent[0]")) == (
        shown,
        "1",
    )


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 400])
def test_words_can_be_read_in_both_themes_and_nothing_is_wider_than_the_screen(page, dark, width):
    page.look(width=width, dark=dark)
    assert faint(page) == []
    page.press("l")
    page.until("document.querySelector('.tokens .t')")
    assert faint(page) == []
    page.press("[")
    page.until("document.querySelector('#scene').selectedOptions[0].text === 'step 1'")
    assert faint(page) == []
    assert page.js("document.documentElement.scrollWidth") <= width


def test_everything_that_is_seen_or_pressed_has_a_name(page):
    assert page.js("document.querySelectorAll('svg[role=img][aria-label]').length") == 1
    assert page.js("document.querySelectorAll('svg:not([aria-label])').length") == 0
    assert nameless(page) == []
    page.press("?")
    assert nameless(page) == []


def test_a_page_opens_at_a_task_that_something_was_kept_of(chromium, folder):
    page = opened(chromium, folder / "run" / "view.html")
    assert page.js("document.querySelector('.verdict strong').textContent") == "Kept"
    assert (page.errors, page.requests) == ([], [])


def test_two_runs_stand_side_by_side(chromium, folder):
    out = folder / "two.html"
    assert main(["view", str(folder / "run"), str(folder / "other"), "--out", str(out)]) == 0
    page = opened(chromium, out, "document.querySelectorAll('.side .card').length > 1", dark=True)
    names = page.js("[...document.querySelectorAll('.who bdi')].map((e) => e.textContent)")
    assert names == ["run", "other"]
    page.press("s")
    page.until("document.querySelectorAll('.side')[1].classList.contains('active')")
    assert (faint(page), nameless(page)) == ([], [])
    assert (page.errors, page.requests) == ([], [])


def test_nothing_can_leave_the_page_even_if_it_tried(chromium, folder):
    page = opened(chromium, folder / "run" / "view.html")
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
    assert page.js(tried) == "run"
    assert any("Content Security Policy" in text for text in page.errors)


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
    page = opened(chromium, path / "view.html")
    assert page.js("document.querySelectorAll('#tasks button').length") == 125
    # What the browser measured, so that a busy machine between us and it is not counted.
    took = page.js("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert 0 < took < 2000
    assert HOSTILE.isprintable() is False
    assert (page.errors, page.requests) == ([], [])


def test_a_long_run_is_walked_through_from_page_to_page(chromium, folder):
    book = Reader([str(folder / "run")])()
    paths = write(book, folder / "long" / "view.html", limit=60_000)
    assert len(paths) > 2
    page = opened(chromium, paths[0])
    assert page.js("document.querySelector('#scene').selectedOptions[0].text") == "step 2"
    page = opened(chromium, f"{paths[1].as_uri()}#s=held-out-0")
    titles = []
    for _ in range(len(book.scenes)):
        page.until("document.readyState === 'complete' && document.querySelector('.card')")
        titles.append(page.js("document.querySelector('#scene').selectedOptions[0].text"))
        page.press("]")
        page.until(
            "document.querySelector('#later')?.disabled || "
            f"document.querySelector('#scene')?.selectedOptions[0]?.text !== {titles[-1]!r}"
        )
    assert titles[-1] == "held-out 2"
    torn = next(
        s["pages"]
        for s in json.loads(page.js("JSON.stringify(state.story.scenes)"))
        if s["pages"][1:]
    )
    page = opened(chromium, paths[torn[0]])
    assert page.js("document.querySelector('#elsewhere a').textContent") == f"page {torn[1] + 1}"
    assert page.errors == []
