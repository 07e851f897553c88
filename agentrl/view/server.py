"""Pages for this machine alone, that follow a run as it grows.

In    what reads a book as it is now
Out   an address with a secret in it; GET and HEAD of a page, its steps and its conversations
Not   files: nothing is found by a path, nothing is written, and no other machine is answered

The secret keeps other users of the machine out, and the check of the Host header keeps pages of
other sites out whose names were made to point here.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from agentrl import disk
from agentrl.errors import AgentRLError, UsageError
from agentrl.view.book import Book, Sheet, story_of, talk
from agentrl.view.page import page, policy, text_of
from agentrl.view.words import pieces_of

HOST = "127.0.0.1"
REST = 5.0
"""Times as long as a reading took, until the next: a large run is not read all the time."""
LEAST = 0.5
"""Seconds between two readings."""
HTML, JSON = "text/html; charset=utf-8", "application/json"

Answer = tuple[str, str]
"""Kind and text."""


class Live:
    """A book, read again when it may have changed."""

    def __init__(
        self, read: Callable[[], Book], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Read it for the first time, so that what is wrong is said at once."""
        self._read, self._clock, self._lock = read, clock, threading.Lock()
        self._book, self._next = read(), 0.0

    def book(self) -> Book:
        """The book as it was a moment ago at most."""
        with self._lock:
            begun = self._clock()
            if begun >= self._next:
                with suppress(AgentRLError):  # between two files of a run that is being written
                    self._book = self._read()
                took = self._clock() - begun
                self._next = self._clock() + max(LEAST, REST * took)
            return self._book

    def answer(self, name: str, asked: dict[str, list[str]]) -> Answer | None:
        """What is at a name below the secret; None where nothing is."""
        book = self.book()
        if name == "":
            return HTML, "".join(page(book.title, _story(book), ()))
        if name == "story":
            return JSON, text_of(_story(book))
        key = asked.get("scene", [""])[0]
        scene = next((at for at, one in enumerate(book.scenes) if one.key == key), None)
        if scene is None:
            return None
        if name == "rows":
            return JSON, text_of(_story(book, scene)["scenes"][scene]["rows"])
        row = asked.get("row", [""])[0]
        if name != "talk" or not row.isdecimal() or int(row) >= len(book.scenes[scene].rows):
            return None
        pieces = [pieces_of(story.weights) for story in book.stories]
        return JSON, text_of(disk.plain(talk(book.scenes[scene].rows[int(row)], pieces)))


def _story(book: Book, scene: int | None = None) -> Any:
    """All steps, and the tasks of one of them."""
    rows = () if scene is None else book.scenes[scene].rows
    sheet = Sheet(tuple((scene or 0, number) for number in range(len(rows))))
    return disk.plain(story_of(book, [sheet], [""], 0, live=True))


@contextmanager
def serving(
    read: Callable[[], Book], port: int = 0, secret: str = ""
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Serve while the block runs: the address, and what waits until Ctrl-C.

    Raises:
        UsageError: the port is taken, or there is nothing to show.
    """
    live, secret = Live(read), secret or secrets.token_urlsafe(24)
    try:
        server = _Server(port, live, secret)
    except (OSError, OverflowError) as error:
        raise UsageError(f"--port {port}: cannot be used ({error}). Give another, or 0.") from error
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}/{secret}/", _wait
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _wait() -> None:
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


class _Server(ThreadingHTTPServer):
    """One thread a request, one book for all."""

    daemon_threads = True

    def __init__(self, port: int, live: Live, secret: str) -> None:
        super().__init__((HOST, port), _Handler)
        self.live, self.secret = live, secret.encode()
        names = (f"{HOST}:{self.server_port}", f"localhost:{self.server_port}")
        self.hosts = frozenset(names)
        self.origins = frozenset(f"http://{name}" for name in names)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is nobody's news; a mistake of ours is."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: _Server
    timeout = 10

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        found, slash, name = parts.path.lstrip("/").partition("/")
        known = hmac.compare_digest(found.encode("utf-8", "replace"), self.server.secret)
        if not self._is_ours():
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "no")
        elif not (known and slash):
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "nothing here")
        else:
            self._give(name, parse_qs(parts.query))

    def _give(self, name: str, asked: dict[str, list[str]]) -> None:
        try:
            answer = self.server.live.answer(name, asked)
        except (OSError, ValueError):  # a line has moved: the run went back to a checkpoint
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", "in a moment")
            return
        if answer is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "nothing here")
            return
        kind, text = answer
        tag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
        if self.headers.get("If-None-Match") == tag:
            self._send(HTTPStatus.NOT_MODIFIED, kind, "", tag)
        else:
            self._send(HTTPStatus.OK, kind, text, tag)

    def _is_ours(self) -> bool:
        """Asked by this machine's own name, and not by another site's page."""
        origin = self.headers.get("Origin")
        own = origin is None or origin in self.server.origins
        return own and self.headers.get("Host") in self.server.hosts

    def _send(self, status: HTTPStatus, kind: str, text: str, tag: str = "") -> None:
        data = text.encode()
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(data)),
            "Cache-Control": "no-cache",
            "Content-Security-Policy": f"{policy(live=True)}; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            **({"ETag": tag} if tag else {}),
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def version_string(self) -> str:
        """Not Python's release."""
        return "agentrl"

    def log_message(self, format: str, *args: object) -> None:
        """Requests are nobody's news."""
