"""A tiny honest chat server: answers come from a function, requests are kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any], dict[str, str]]]


def said(content="", calls=(), finish="stop", usage=(10, 5)):
    """A chat completion, as servers write it."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": f"c{i}", "type": "function", "function": {"name": n, "arguments": a}}
            for i, (n, a) in enumerate(calls)
        ]
    body: dict[str, Any] = {"choices": [{"message": message, "finish_reason": finish}]}
    if usage:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    return 200, body, {}


def refused(status, message, code=None, **headers):
    """An error, as servers write it."""
    return status, {"error": {"message": message, "code": code}}, headers


class Asked:
    """What a server was asked, and where it is."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.url = ""


@contextmanager
def serving(answer: Answer) -> Iterator[Asked]:
    """A server on this machine for as long as the block."""
    asked, lock = Asked(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                asked.bodies.append({**body, "path": self.path})
                asked.keys.append(self.headers.get("Authorization"))
                status, found, headers = answer(body)
            text = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            """Quiet."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128
        daemon_threads = True

        def handle_error(self, *_):
            """A client that gave up is none of its business."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    asked.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
