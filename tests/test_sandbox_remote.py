"""Code on another machine: a small server speaks the protocol, well and badly."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agentrl.errors import UsageError
from agentrl.sandbox import Limits, Sandbox
from agentrl.sandbox.remote import RemoteRunner

FINE = {"status": "Finished", "execution_time": 0.25, "return_code": 0, "stdout": "1\n"}
FAILED = {"status": "Finished", "return_code": 1, "stdout": "before\n", "stderr": "ValueError\n"}


def answer(status="Success", /, **changed):
    return {"status": status, "message": "", "run_result": {**FINE, **changed}}


@contextmanager
def serving(*answers):
    """A server that gives these answers in turn: (status, body) or a function of the handler."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            question = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.path, json.loads(question)))
            given = answers[min(len(asked), len(answers)) - 1]
            if callable(given):
                given(self)
                return
            status, body = given
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(url, code="print(1)", limits=None, **settings):
    runner = RemoteRunner(url, pause=0.01, **settings)
    try:
        return runner.run(code, limits or Limits(wall=2.0))
    finally:
        runner.close()


def test_code_is_asked_for_as_the_protocol_says():
    with serving((200, answer())) as (url, asked), Sandbox(backend="remote", url=url) as sandbox:
        limits = Limits(wall=3.0, memory=512 << 20)
        result = sandbox.run("print('ä')", limits=limits)
    assert (result.status, result.stdout, result.seconds) == ("ok", "1\n", 0.25)
    assert (result.level, result.backend) == (0, "remote")
    path, question = asked[0]
    assert path == "/run_code"
    assert question["code"] == "print('ä')"
    assert question["language"] == "python"
    assert question["run_timeout"] == 3.0
    assert question["memory_limit_MB"] == 512


@pytest.mark.parametrize(
    ("given", "status", "text"),
    [
        (answer("Failed", **FAILED), "error", "before\nValueError\n"),
        (answer("Failed", status="TimeLimitExceeded", return_code=None), "timeout_wall", "1\n"),
        (answer("Failed", return_code=-9), "killed", "1\n"),
        (answer(stdout=None, stderr=None), "ok", ""),
        (answer(stdout="x" * 300), "output_limit", "xxx"),
        (answer(stdout="\ud800"), "ok", "\ufffd"),
    ],
)
def test_each_end_has_a_status(given, status, text):
    with serving((200, given)) as (url, _):
        result = run(url, limits=Limits(wall=2.0, output_most=200))
    assert result.status == status
    assert text in result.stdout


BAD = {
    "its own failure": (200, {"status": "SandboxError", "message": "no pod", "run_result": None}),
    "an error of its command": (200, answer(status="Error")),
    "a code that is no number": (200, answer(return_code="0")),
    "an unknown status": (200, answer("Unheard of")),
    "a page": (200, b"<html>"),
    "nested without end": (200, b"[" * 100_000),
    "a list": (200, [1]),
    "a result that is none": (200, {"status": "Success", "run_result": "none"}),
    "far too much": (200, b"x" * 4_000_000),
    "an error": (500, b"it fell over"),
    "a gateway that waited": (504, b""),
    "another address": (307, b""),
    "no such path": (404, b"no such path"),
    "no such language": (422, b"no such language"),
    "nothing": lambda handler: None,
    "half of it": lambda handler: handler.wfile.write(
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"
    ),
    "another protocol": lambda handler: handler.wfile.write(b"nonsense\r\n\r\n"),
}


@pytest.mark.parametrize("bad", BAD)
def test_whatever_else_comes_is_a_failure_of_the_sandbox_and_asked_once(bad):
    with serving(BAD[bad]) as (url, asked):
        result = run(url, limits=Limits(wall=2.0, output_most=1000))
    assert result.status == "sandbox_failure"
    assert result.problem
    assert "\n" not in result.problem
    assert result.stdout == ""
    assert len(asked) == 1


@pytest.mark.parametrize("busy", [429, 502, 503])
def test_a_server_too_busy_to_begin_is_asked_again(busy):
    with serving((busy, b"later"), (busy, b"later"), (200, answer())) as (url, asked):
        assert run(url).status == "ok"
    assert len(asked) == 3


def test_a_server_that_stays_busy_is_given_up():
    with serving((503, b"later")) as (url, asked):
        result = run(url)
    assert (result.status, len(asked)) == ("sandbox_failure", 3)
    assert "503" in result.problem


def test_nobody_there_is_a_failure_of_the_sandbox():
    with serving() as (url, _):
        pass
    assert run(url).status == "sandbox_failure"


def test_an_answer_that_does_not_come_is_not_waited_for():
    let_go = threading.Event()
    with serving(lambda _: let_go.wait(30)) as (url, _):
        result = run(url, limits=Limits(wall=0.1), queue=0.1)
        let_go.set()
    assert result.status == "sandbox_failure"


def test_an_answer_that_drips_is_not_waited_for():
    def drip(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        try:
            for _ in range(600):
                handler.wfile.write(b" ")
                time.sleep(0.05)
        except OSError:
            pass

    with serving(drip) as (url, _):
        result = run(url, limits=Limits(wall=0.1), queue=0.1)
    assert result.status == "sandbox_failure"


@pytest.mark.parametrize("code", ["a\0b", "\ud800", "#" * 100_000, b"1", None])
def test_what_is_no_code_is_not_sent(code):
    with serving((200, answer())) as (url, asked):
        assert run(url, code).status == "error"
    assert asked == []


@pytest.mark.parametrize("url", ["", "sandbox:8080/x", "ftp://x", "http://", 3])
def test_an_address_that_is_none_is_refused_at_once(url):
    with pytest.raises(UsageError, match="url="):
        RemoteRunner(url)


def test_passwords_and_proxies_of_the_environment_are_not_used(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with serving((200, answer())) as (url, _):
        assert run(url).status == "ok"


def test_sessions_are_refused():
    with Sandbox(backend="remote", url="http://127.0.0.1:1") as sandbox:
        assert sandbox.level == 0
        with pytest.raises(UsageError, match="remote"):
            sandbox.session()


def test_many_threads_share_one_runner():
    with serving((200, answer())) as (url, asked):
        runner = RemoteRunner(url)
        ended = []
        threads = [
            threading.Thread(target=lambda: ended.append(runner.run("1", Limits()).status))
            for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        runner.close()
    assert ended == ["ok"] * 16
    assert len(asked) == 16
