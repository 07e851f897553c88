"""Every tool that comes with agentrl answers whatever a policy writes, and harms no episode."""

from __future__ import annotations

import asyncio
import functools
import gzip
import http.server
import sys
import threading
from pathlib import Path

import pytest

from agentrl.env import ToolEnv
from agentrl.mcp import McpTools
from agentrl.message import AssistantTurn, ToolCall
from agentrl.registry import TOOLBOXES
from agentrl.task import Task

TOY = Path(__file__).with_name("toy_mcp_server.py")
RIGHT = {"string": "1", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
ODD_TEXTS = [
    "",
    " ",
    "žluťoučký 🐎 \u202e\u0000",
    "\u0661+\u0662",
    "x" * 90_000,
    "(" * 5000,
    "a" * 40_000 + "!",
    "';--",
]
ODD_NUMBERS = [0, -1, 10**30, -(10**30)]


def kinds(schema):
    """JSON types that a parameter takes."""
    return [part.get("type") for part in schema.get("anyOf", [schema])]


def cases(spec, page):
    """Arguments, each with the status that is due; None where the tool may say what it likes."""
    properties = spec.parameters.get("properties", {})
    required = spec.parameters.get("required", [])
    right = {name: RIGHT.get(kinds(properties[name])[0], "1") for name in required}
    yield right, None
    yield {**right, "žádný": 1}, "bad_arguments"
    yield {**right, "k" * 200_000: 1}, "bad_arguments"
    for name in required:
        yield {key: value for key, value in right.items() if key != name}, "bad_arguments"
    for name, schema in properties.items():
        yield {**right, name: "x" * 200_000}, "bad_arguments"
        if "object" not in kinds(schema):
            yield {**right, name: {"a": [1]}}, "bad_arguments"
        odd = ODD_TEXTS if "string" in kinds(schema) else ODD_NUMBERS
        more = (text.format(at=f"http://{page}") for text in MORE.get(name, ()))
        yield from (({**right, name: value}, None) for value in (*odd, *more))


URLS = (
    "{at}/page",
    "{at}/packed",
    "{at}/away",
    "{at}/\ud800\u2028?q=\x00#é",
    "http://xn--/",
    "http://xn--a/",
    "http://faß.invalid",
    "http://[::1%25lo]/",
    "http://localhost:1/",
    "//",
)
STATEMENTS = (
    "SELECT * FROM json_each('[1]')",
    "SELECT printf('%.*c', 2000000000, 'x')",
    "DROP TABLE t",
    "CREATE VIEW t AS SELECT 1",
)
MORE = {"url": URLS, "statement": STATEMENTS}


@pytest.fixture
def page():
    """A server of this machine that packs, redirects and names what it sends in odd words."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            packed = self.path == "/packed"
            self.send_response(302 if self.path == "/away" else 200)
            self.send_header("location", "http://xn--/")
            self.send_header("content-type", "text/plain; charset=\x1b[31m")
            if packed:
                self.send_header("content-encoding", "gzip")
            self.end_headers()
            self.wfile.write(gzip.compress(b"") * 1000 if packed else b"\xff page")

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=functools.partial(server.serve_forever, 0.01))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def boxes(folder, page):
    """Options with which each toolbox has something to do."""
    return {
        "search": {"folder": str(folder)},
        "http": {"allow": page, "allow_private": True, "requests": 10_000},
        "http, all hosts": {"allow": "*", "requests": 10_000},
        "files": {"setup": lambda task: {"a.txt": "one document"}},
        "sql": {"script": "CREATE TABLE t (a)"},
        "sql, to read": {"script": "CREATE TABLE t (a)", "readonly": True},
    }


class Patterns(McpTools):
    """The tools of a server whose schemas have patterns and lists without repetition."""

    def __init__(self):
        super().__init__(command=sys.executable, args=[str(TOY)], shared=True, only="label, echo")


@pytest.mark.parametrize(
    "name", [*TOOLBOXES.names(), "http, all hosts", "sql, to read", "an MCP server"]
)
def test_odd_arguments_are_answered_in_words(name, tmp_path, page):
    (tmp_path / "a.txt").write_text("one document")
    options = boxes(tmp_path, page).get(name, {})

    class Bench(ToolEnv):
        """One toolbox by itself."""

        max_turns = max_tool_calls = 100_000

        def toolboxes(self):
            if name == "an MCP server":
                return [Patterns()]
            return [TOOLBOXES.make(name.partition(",")[0], options)]

    async def main():
        env = Bench()
        await env.areset(options={"task": Task("2+2?")})
        met = []
        for schema in env.tool_schemas():
            spec = env._offered()[schema["function"]["name"]]
            for arguments, due in cases(spec, page):
                await env.astep(AssistantTurn("", (ToolCall(spec.name, arguments),)))
                assert env.end is None, env.end.problem
                (outcome,) = env.turns[-1].outcomes
                met.append((arguments, due, outcome))
        await env.arelease()
        return met

    met = asyncio.run(main())
    # Where nothing ever works, little is tried; all hosts are none where there is no network.
    assert any(outcome.status == "ok" for *_, outcome in met) or name == "http, all hosts"
    for arguments, due, outcome in met:
        shown = {str(key)[:40]: str(value)[:40] for key, value in arguments.items()}
        assert outcome.status in ((due,) if due else ("ok", "error", "bad_arguments")), shown
        assert outcome.content, shown
        assert len(outcome.content) <= 8000, shown
        assert "failed: " not in outcome.content or outcome.status == "ok", (shown, outcome.content)
        outcome.content.encode()
