"""`agentrl view --serve`: who is answered, with what, and that it follows a run."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from agentrl.cli.chosen_again import chooser
from agentrl.errors import UsageError
from agentrl.record import RunFolder
from agentrl.view.book import Reader
from agentrl.view.server import Live, serving
from tests.browser import browsing
from tests.viewed import config_of, played, tasks_of, write_run, write_step


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", steps=1, tasks=2)


@pytest.fixture
def address(run):
    with serving(Reader([str(run)], choosers=chooser)) as (url, _):
        yield url


def ask(url, method="GET", **headers):
    """Status, headers and body; a header named None is left out."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        if value is not None:
            connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    found = (answer.status, dict(answer.getheaders()), answer.read())
    connection.close()
    return found


def test_only_this_machine_is_answered_at_an_address_that_nobody_guesses(address):
    parts = urlsplit(address)
    assert parts.hostname == "127.0.0.1"
    assert len(parts.path.strip("/")) >= 32
    status, headers, body = ask(address)
    assert status == 200
    assert b"<!doctype html>" in body
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "connect-src 'self'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Python" not in headers["Server"]


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/story", "/wrong/story", "/index.html", "/../run.json", "/%2e%2e/run.json"),
        *("/{secret}", "/{secret}x/", "/{secret}/run.json", "/{secret}/../run.json"),
        *("/{secret}/talk?scene=step-1&row=99", "/{secret}/talk?scene=step-1&row=-1"),
        *(
            "/{secret}/talk?scene=nope&row=0",
            "/{secret}/rows",
            "/{secret}/talk?scene=step-1&row=%C2%B2",
        ),
    ],
)
def test_nothing_else_is_found(address, path):
    parts = urlsplit(address)
    root = f"http://{parts.netloc}"
    secret = parts.path.strip("/")
    asked = root + path.format(secret=secret)
    status, _, body = ask(asked)
    assert (status, body) == (404, b"nothing here")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1:1"},
        {"Host": None},
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
)
def test_a_page_of_another_site_is_refused_whatever_its_name_points_to(address, headers):
    status, _, body = ask(address, **headers)
    assert (status, body) == (403, b"no")


def test_nothing_can_be_written(address, run):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert ask(address, method)[0] == 501
    status, headers, body = ask(address + "story", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 100
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_steps_tasks_and_conversations_are_given_one_by_one(address):
    status, headers, body = ask(address + "story")
    story = json.loads(body)
    assert status == 200
    assert [scene["key"] for scene in story["scenes"]] == ["held-out-0", "step-1", "held-out-1"]
    assert all(scene["rows"] == [] for scene in story["scenes"])
    rows = json.loads(ask(address + "rows?scene=step-1")[2])
    assert [row["id"] for row in rows] == ["step-1-0", "step-1-1"]
    talk = json.loads(ask(address + "talk?scene=step-1&row=1")[2])
    assert [card["title"] for card in talk[0][0]][:3] == ["system", "task", "turn 1"]
    status, _, body = ask(address + "story", If_None_Match=headers["ETag"])
    assert (status, body) == (304, b"")


def test_a_run_is_read_again_but_not_all_the_time(run):
    now, reads = [0.0], []
    reader = Reader([str(run)])

    def read():
        reads.append(now[0])
        now[0] += 1.0  # it takes a second
        return reader()

    live = Live(read, clock=lambda: now[0])
    live.book()
    assert len(reads) == 2
    live.book()
    now[0] += 4.9
    live.book()
    assert len(reads) == 2
    now[0] += 0.2
    live.book()
    assert len(reads) == 3


def test_a_moment_in_which_the_run_cannot_be_read_shows_what_was_there_before(run):
    live = Live(Reader([str(run)]), clock=iter(range(1, 1000)).__next__)
    (run / "run.json").write_text("")
    assert live.answer("story", {}) is not None
    with pytest.raises(UsageError):
        Live(Reader([str(run)]))


def test_a_port_that_is_taken_is_told_in_one_line(address, run):
    port = urlsplit(address).port
    with (
        pytest.raises(UsageError, match=rf"--port {port}: cannot be used"),
        serving(Reader([str(run)]), port),
    ):
        pass


def test_the_page_follows_a_run_that_goes_on(address, run):
    with browsing() as chromium:
        page = chromium.open(address)
        page.until("document.querySelector('.card')")
        assert page.js("document.querySelector('#scene').selectedOptions[0].text") == "step 1"
        write_step(RunFolder(run), config_of(), 2, played(tasks_of(2), 8, step=2))
        page.until("document.querySelector('#scene').selectedOptions[0].text === 'step 2'")
        page.until("document.querySelector('.card')")
        page.press("ArrowDown")
        page.until("document.querySelector('#task').textContent.startsWith('1.')")
        root = urlsplit(address)._replace(path="").geturl()
        assert all(url.startswith(root) for url in page.requests)
        assert page.errors == []


def test_the_command_says_where_it_is_and_ends_with_ctrl_c(run):
    command = [sys.executable, "-m", "agentrl", "view", str(run), "--serve", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        url = json.loads(process.stdout.readline())["url"]
        assert ask(url)[0] == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_line_that_moved_is_asked_for_again_in_a_moment(run):
    with serving(Reader([str(run)])) as (url, _):
        assert ask(url + "talk?scene=step-1&row=1")[0] == 200
        file = run / "groups" / "000001.jsonl"
        lines = file.read_bytes()
        (run / "run.json").write_text("")  # so that it is not read anew
        file.write_bytes(b"xxx" + lines)
        assert ask(url + "talk?scene=step-1&row=1")[0] == 503
        file.write_bytes(lines)
        assert ask(url + "talk?scene=step-1&row=1")[0] == 200
