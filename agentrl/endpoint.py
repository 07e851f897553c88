"""Endpoint: somebody's OpenAI-compatible chat server, asked with patience and within its limits.

In    a request's JSON
Out   the answer's JSON; what was used; errors sorted by whose they are
Not   a reader of answers (chat.py); nor does the key appear in any file, message or record
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from agentrl.config import EndpointSection
from agentrl.errors import EnvironmentFault, RunError, UsageError

GIVE_UP = 8
"""Requests in a row that failed for good: then the server is down, not the episode."""
FIRST_TRIES = 3
"""Tries of a server that has never answered anything."""
SAID = 300
"""Characters of a server's words that a message repeats."""
_AGAIN = frozenset({408, 409, 425, 429})
_CONTEXT = re.compile(
    r"context.?(length|window)|maximum context|prompt is too long|too many tokens|max_model_len"
    r"|longer than the maximum|exceed\w* .{0,40}tokens",
    re.IGNORECASE,
)
_HALF = re.compile("[\ud800-\udfff]")
_FILTERED = re.compile(r"content.?(filter|policy|management)|responsible.?ai", re.IGNORECASE)


class ContextFull(Exception):
    """The conversation no longer fits in the model's context."""


class Filtered(Exception):
    """The server refused to answer because of what the conversation says."""


@dataclass(slots=True)
class Endpoint:
    """One server. It belongs to the event loop that it is first used in."""

    settings: EndpointSection
    key: str = ""
    transport: httpx.AsyncBaseTransport | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    retries: int = 0
    """Tries beyond the first, of all requests."""
    _client: httpx.AsyncClient | None = None
    _answered: bool = False
    _failed: int = 0
    """Requests in a row that failed for good."""
    _next: float = 0.0
    """When the next request may begin."""
    _gate: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def where(self) -> str:
        """How a message about it begins."""
        return f"--base-url {self.settings.base_url}"

    async def chat(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        """The answer to a chat completion request, and how many tries it took beyond the first.

        Raises:
            ContextFull: the conversation is too long for the model.
            Filtered: the server will not answer this conversation.
            EnvironmentFault: it failed again and again, or refuses this request alone.
            UsageError: address, key or model are wrong, or it refuses the very first request.
            RunError: it has failed for many requests in a row, or asks for a pause beyond patience.
        """
        begun, tries = None, 0
        while True:
            await self._turn()
            # Waiting for its turn among others is no fault of the server's.
            begun = self.clock() if begun is None else begun
            answer, why, wait = await self._try(body)
            if answer is not None:
                self._answered, self._failed = True, 0
                return answer, tries
            tries += 1
            wait = wait if wait is not None else min(60.0, 2.0**tries / 2) * (0.5 + self.jitter())
            spent = self.clock() - begun + wait
            if tries > self._most() or spent > self.settings.patience:
                raise self._given_up(why, tries)
            self.retries += 1
            await self.sleep(wait)

    async def close(self) -> None:
        """Close its connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _most(self) -> int:
        most = self.settings.retries
        return most if self._answered else min(most, FIRST_TRIES)

    def _given_up(self, why: str, tries: int) -> Exception:
        self._failed += 1
        if not self._answered:
            return UsageError(
                f"{self.where}: no answer in {tries} tries ({why}). Is the server up, and is this "
                "its address up to /v1?"
            )
        if self._failed >= GIVE_UP:
            return RunError(
                f"{self.where}: {self._failed} requests in a row failed, the last one {tries} "
                f"times ({why}). What was played is kept. Go on with --resume."
            )
        return EnvironmentFault(f"the endpoint failed {tries} times: {why}")

    async def _turn(self) -> None:
        """Wait until the server's own limit lets another request begin."""
        async with self._gate:
            wait = self._next - self.clock()
            if wait > 0:
                await self.sleep(wait)
            if self.settings.max_requests:
                self._next = max(self._next, self.clock()) + 60.0 / self.settings.max_requests

    async def _try(
        self, body: Mapping[str, Any]
    ) -> tuple[dict[str, Any] | None, str, float | None]:
        """An answer; or why there is none, and the wait that was asked for."""
        try:
            async with asyncio.timeout(self.settings.timeout):
                found = await self._connected().post("chat/completions", json=dict(body))
        except TimeoutError:
            return None, f"no whole answer in {self.settings.timeout:g} s", None
        except (httpx.RequestError, httpx.InvalidURL) as error:
            return None, f"{type(error).__name__}: {self._said(str(error))}", None
        if found.status_code in _AGAIN or found.status_code >= 500:
            wait = self._asked_wait(found)
            if wait is not None:
                self._bear(wait)
                self._next = max(self._next, self.clock() + wait)
            return None, f"HTTP {found.status_code}: {self._words(found)}", wait
        if found.status_code != 200:
            self._refuse(found)
        try:
            answer = _sound(found.json())
        except (ValueError, RecursionError):
            return None, "an answer that is not JSON", None
        if not isinstance(answer, dict) or not answer.get("choices"):
            return None, f"an answer without choices: {self._said(str(answer))}", None
        return answer, "", None

    def _bear(self, wait: float) -> None:
        """Stop where the server wants to be left alone for longer than anybody would wait."""
        if wait > self.settings.patience:
            raise RunError(
                f"{self.where}: it asks for a pause of {wait:.0f} s, and --endpoint.patience is "
                f"{self.settings.patience:g} s. What was played is kept. Go on with --resume "
                "after the pause."
            )

    def _refuse(self, found: httpx.Response) -> None:
        words, status = self._words(found), found.status_code
        advice = {
            401: f"Is the key in {self.settings.api_key_env} right? --api-key-env names another.",
            403: f"May the key in {self.settings.api_key_env} use this model?",
            404: "Is this the address up to /v1, and --model a name that the server knows?",
        }
        if status in advice:
            raise UsageError(f"{self.where}: HTTP {status}, {words} {advice[status]}")
        if status in (400, 413, 422) and _CONTEXT.search(words):
            raise ContextFull(words)
        if status == 400 and _FILTERED.search(words):
            raise Filtered(words)
        if self._answered:
            raise EnvironmentFault(f"the endpoint refuses a request: HTTP {status}, {words}")
        raise UsageError(
            f"{self.where}: it refuses the request. HTTP {status}, {words} "
            "See `agentrl eval --help` for the settings under --endpoint."
        )

    def _asked_wait(self, found: httpx.Response) -> float | None:
        """Seconds of a Retry-After header, in either of its two forms."""
        text = found.headers.get("retry-after", "")
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return float(text)
        try:
            return max(0.0, (parsedate_to_datetime(text) - self.now()).total_seconds())
        except (TypeError, ValueError):
            return None

    def _words(self, found: httpx.Response) -> str:
        """What the server says about an error: its message and code, else its text."""
        text = found.text
        try:
            error = json.loads(text)
            error = error.get("error", error) if isinstance(error, dict) else error
            if isinstance(error, dict):
                parts = (error.get("message") or error.get("detail"), error.get("code"))
                text = " ".join(str(part) for part in parts if part) or text
        except (ValueError, RecursionError):
            pass
        return self._said(text).rstrip(".") + "."

    def _said(self, text: str) -> str:
        """A server's words on one line; should they repeat the key, without it."""
        if self.key:
            text = text.replace(self.key, "***")
        return " ".join(text.split())[:SAID]

    def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
            self._client = httpx.AsyncClient(
                base_url=self.settings.base_url.rstrip("/") + "/",
                headers=headers,
                timeout=self.settings.timeout,
                transport=self.transport,
                limits=httpx.Limits(max_connections=self.settings.max_live),
            )
        return self._client


def _sound(answer: Any) -> Any:
    """The same without halves of surrogate pairs, which JSON may name and no file can hold."""
    text = json.dumps(answer, ensure_ascii=False)
    return json.loads(_HALF.sub("\ufffd", text)) if _HALF.search(text) else answer


def key_of(settings: EndpointSection) -> str:
    """The key in the environment variable that the settings name; empty where there is none."""
    return os.environ.get(settings.api_key_env, "").strip()
