"""HTTP: pages of the web for a policy, from the hosts that it is given.

In    a list of hosts; URLs, whatever a policy may write
Out   status and text, or ToolError in words that the policy may read; from a cassette as before
Not   a way into one's own network; nor a browser: pages come as they are sent
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from agentrl.author import run_author
from agentrl.errors import ToolError, UsageError
from agentrl.task import Task
from agentrl.toolbox import Toolbox
from agentrl.tooling import ToolResult, tool
from agentrl_tools._cassette import Answer, Cassette
from agentrl_tools._cassette import cassette as opened
from agentrl_tools._fetch import TOTAL_SECONDS, Fetcher, Place, Rules, check_url
from agentrl_tools._options import names

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
MAX_BODY = 20_000
"""Characters that a policy may send."""
MAX_TEXT = 20_000
"""Characters of a page."""
_TEXT = re.compile(r"text/|application/(.*\+)?(json|xml|javascript|yaml|x-www-form-urlencoded)\b")
_CHARSET = re.compile(r"""charset=["']?([\w.:-]+)""")
_KNOWN = re.compile(
    r"utf-?(8|16|32)(-?[lb]e)?|(us-)?ascii|latin-?1|iso-8859-\d+|windows-\d+|cp\d+|koi8-[ru]"
    r"|gbk|gb2312|gb18030|big5|shift[_-]jis|euc-(jp|kr)"
)
"""Encodings of text; some others that Python knows take a time that grows with the square."""


class Http(Toolbox):
    """Fetch pages from some hosts of the web."""

    def __init__(
        self,
        *,
        allow: str | Sequence[str] = (),
        methods: str | Sequence[str] = ("GET", "HEAD"),
        requests: int = 20,
        cassette: str | Path = "",
        mode: Literal["replay", "record"] = "replay",
        allow_private: bool = False,
        fetcher: Callable[[Rules], Fetcher] = Fetcher,
    ) -> None:
        """Say what may be fetched.

        Args:
            allow: Hosts: `example.org`, `*.example.org` for all names under it, `*` for all; each
                may end with `:port`, else the usual ports are meant. Without any, none is allowed.
            methods: HTTP methods that may be used.
            requests: Most calls in an episode.
            cassette: JSONL file of answers.
            mode: `replay` answers from the cassette and never touches the network; `record`
                fetches what is not in it yet, and adds that.
            allow_private: Whether addresses outside the public internet may be reached.
            fetcher: What fetches, made from the rules; another one needs no network.

        Raises:
            UsageError: An entry is no host, a method is unknown, a cassette cannot be read.
        """
        self._rules = Rules(tuple(map(_place, names(allow))), allow_private)
        self._methods = tuple(map(_method, names(methods)))
        if mode == "record" and not cassette:
            raise UsageError("http: mode record needs a file to record into. Give cassette.")
        if requests < 1 or mode not in ("replay", "record"):
            raise UsageError("http: requests must be a number above 0, and mode replay or record.")
        path = Path(cassette).resolve() if cassette else None
        if path and mode == "replay" and not path.is_file():
            raise UsageError(f"http: there is no cassette {path}. Record one with mode='record'.")
        self._cassette: Cassette | None = opened(path) if path else None
        self._replay = path is not None and mode == "replay"
        self._fetcher = fetcher(self._rules)
        self._most = self._left = requests

    def start(self, task: Task) -> None:
        """Give an episode its requests."""
        self._left = self._most

    @tool(timeout=TOTAL_SECONDS + 5)
    async def fetch(self, url: str, method: Method = "GET", body: str = "") -> ToolResult:
        """Fetch a page of the web.

        Args:
            url: Address that begins with http:// or https://.
            method: How to ask.
            body: What to send with it; only with POST, PUT and PATCH.
        """
        try:
            answer = await self._answer(url, method, body)
        except ToolError as error:
            raise ToolError(f"fetch: {error}") from None
        return ToolResult(_shown(url, answer), is_error=answer.status >= 400)

    async def _answer(self, url: str, method: Method, body: str) -> Answer:
        if method not in self._methods:
            raise ToolError(f"{method} is not allowed. Allowed: {', '.join(self._methods)}.")
        if body and method not in ("POST", "PUT", "PATCH"):
            raise ToolError(f"{method} sends no body. Leave it out.")
        if len(body) > MAX_BODY:
            raise ToolError(f"the body has {len(body)} characters, at most {MAX_BODY} are allowed.")
        checked = check_url(self._rules, url)
        if self._left < 1:
            raise ToolError(f"all {self._most} requests of this episode are used up.")
        self._left -= 1
        if self._cassette is None:
            return await self._fetcher.fetch(method, checked, body)
        key = (method, str(checked), body.encode("utf-8", "replace").decode())
        if (known := self._cassette.find(key)) is not None:
            return known
        if self._replay:
            raise ToolError(f"{str(checked)[:200]} was not recorded, so it cannot be fetched here.")
        answer = await self._fetcher.fetch(method, checked, body)
        kept: Answer = await run_author(self._cassette.keep, key, answer)
        return kept


def _place(text: str) -> Place:
    place = Place.read(text)
    if place is None:
        raise UsageError(
            f"http: allow has {text!r}, which is no host. Write example.org, *.example.org or "
            "example.org:8080, without http:// and without a path."
        )
    return place


def _method(text: str) -> str:
    if text.upper() not in METHODS:
        raise UsageError(f"http: there is no method {text!r}. Give some of {', '.join(METHODS)}.")
    return text.upper()


def _shown(url: str, answer: Answer) -> str:
    kind = "".join(letter if letter.isprintable() else "?" for letter in answer.kind)
    head = f"{answer.status} {kind or 'of no stated type'}"
    if answer.url != url:
        head += f"\nfrom {answer.url[:500]}"
    return f"{head}\n\n{_text(answer)}" if answer.body else head


def _text(answer: Answer) -> str:
    kind = answer.kind.lower()
    if not _TEXT.match(kind) and (kind or b"\0" in answer.body[:1000]):
        return f"[{len(answer.body)} bytes that are no text are not shown]"
    named = _CHARSET.search(kind)
    charset = named[1] if named and _KNOWN.fullmatch(named[1]) else "utf-8"
    beginning = answer.body[: 4 * MAX_TEXT + 8]  # no character has more than four bytes
    try:
        text = beginning.decode(charset, "replace")
    except (LookupError, UnicodeError):
        text = beginning.decode("utf-8", "replace")
    if len(text) <= MAX_TEXT:
        return text
    size = len(answer.body)
    return f"{text[:MAX_TEXT]}\n[only the first {MAX_TEXT} characters of {size} bytes]"
