"""Fetching one URL of a stranger's choice, without being led where the stranger could not go.

In    a method, a URL and a body; rules
Out   an Answer whose size and time are bounded, or ToolError in words
Not   a browser: no cookies, no credentials, no proxies, no retries, nothing from the environment
"""

from __future__ import annotations

import asyncio
import re
import socket
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from ssl import SSLContext

import httpx

from agentrl.author import in_thread, run_author
from agentrl.errors import ToolError
from agentrl_tools._addresses import address_objection, host_objection
from agentrl_tools._cassette import Answer

MAX_HOPS = 3
MAX_URL = 2000
CONNECT_SECONDS = 5.0
TOTAL_SECONDS = 10.0
MAX_RAW = 1 << 20
"""Bytes that are received."""
MAX_DECODED = 4 << 20
"""Bytes after unpacking."""
MAX_MEMBERS = 100
"""Of a packed body: parts that are packed each by itself."""
_BREATH = 64
"""Chunks after which the loop has a turn: many small ones may be there at once."""
_REDIRECTS = (301, 302, 303, 307, 308)
_PORTS = {"http": 80, "https": 443}
_ENTRY = re.compile(r"(?P<host>\*|(?:\*\.)?[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::(?P<port>\d{1,5}))?")
_HEADERS = {"User-Agent": "agentrl", "Accept": "*/*", "Accept-Encoding": "gzip"}

Resolve = Callable[[str, int], Sequence[str]]


def system_resolver(host: str, port: int) -> list[str]:
    """All addresses of a host, as the system knows them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@cache
def _certificates() -> SSLContext:
    return httpx.create_ssl_context(trust_env=False)


def system_transport() -> httpx.AsyncBaseTransport:
    """A transport of its own for each request, so that nothing is left of the one before."""
    return httpx.AsyncHTTPTransport(verify=_certificates(), trust_env=False)


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of the list of what may be reached."""

    host: str
    """A name, `*.` and a name for all names under it, or `*`."""
    port: int | None

    @classmethod
    def read(cls, text: str) -> Place | None:
        """From `host` or `host:port`; None where it is neither."""
        found = _ENTRY.fullmatch(text.strip().lower())
        if found is None:
            return None
        port = int(found["port"]) if found["port"] else None
        if port is not None and not 0 < port < 1 << 16:
            return None
        return cls(found["host"].strip("[]"), port)

    def holds(self, host: str, port: int, usual: int) -> bool:
        """Whether a host and port are allowed by it; without a port, the usual one is."""
        if port != (usual if self.port is None else self.port):
            return False
        if self.host.startswith("*."):
            return host.endswith(self.host[1:])
        return self.host in ("*", host)


@dataclass(frozen=True, slots=True)
class Rules:
    """What may be fetched."""

    allow: tuple[Place, ...]
    allow_private: bool = False
    """Also addresses that are not of the public internet: for tests and one's own servers."""
    seconds: float = TOTAL_SECONDS
    """Of one call, from looking up the name to the last byte, redirects included."""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches by rules; the two ways out of the process are values, so that tests need neither."""

    rules: Rules
    resolve: Resolve = system_resolver
    transport: Callable[[], httpx.AsyncBaseTransport] = system_transport

    async def fetch(self, method: str, url: httpx.URL, body: str) -> Answer:
        """The answer after at most MAX_HOPS redirects, each checked as the first URL was."""
        try:
            async with asyncio.timeout(self.rules.seconds):
                for _ in range(MAX_HOPS + 1):
                    answer, following = await self._hop(method, url, body)
                    if following is None:
                        return answer
                    if answer.status == 303 or (answer.status < 303 and method == "POST"):
                        method, body = ("HEAD" if method == "HEAD" else "GET"), ""
                    url = check_url(self.rules, following)
        except TimeoutError:
            raise ToolError(
                f"{_host(url)} took longer than {self.rules.seconds:g} seconds."
            ) from None
        raise ToolError(f"{_host(url)} redirects more than {MAX_HOPS} times.")

    async def _hop(self, method: str, url: httpx.URL, body: str) -> tuple[Answer, str | None]:
        addresses = await self._addresses(url)
        try:
            async with httpx.AsyncClient(
                transport=self.transport(),
                trust_env=False,
                timeout=httpx.Timeout(self.rules.seconds, connect=CONNECT_SECONDS),
            ) as client:
                request = _pinned(client, method, url, addresses[0], body)
                response = await client.send(request, stream=True, follow_redirects=False)
                try:
                    return await _answer(method, url, response)
                finally:
                    await response.aclose()
        except httpx.TimeoutException:
            raise ToolError(f"{_host(url)} did not answer in time.") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            why = str(error)[:200] or type(error).__name__
            raise ToolError(f"{_host(url)} cannot be reached: {why}.") from None

    async def _addresses(self, url: httpx.URL) -> Sequence[str]:
        """Checked addresses of a host; it is looked up here and nowhere else."""
        try:
            found: Sequence[str] = await run_author(self.resolve, _host(url), _port(url))
        except (OSError, UnicodeError) as error:
            raise ToolError(f"{_host(url)} cannot be found: {error}.") from None
        if not found:
            raise ToolError(f"{_host(url)} has no address.")
        for address in found:
            why = "" if self.rules.allow_private else address_objection(address)
            if why:
                raise ToolError(f"{_host(url)} is not allowed: its address {address} is {why}.")
        return found


def check_url(rules: Rules, text: str) -> httpx.URL:
    """The URL, if the rules let it be fetched."""
    shown = text[:200]
    if len(text) > MAX_URL:
        raise ToolError(f"the URL has {len(text)} characters, at most {MAX_URL} are allowed.")
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError) as error:
        raise ToolError(f"{shown!r} is no URL: {str(error)[:200]}.") from None
    if url.scheme not in _PORTS:
        raise ToolError(f"{shown!r} is not allowed. Only URLs with http:// or https:// are.")
    if url.userinfo:
        raise ToolError(f"{shown!r} is not allowed: it names a user before an @. Leave that out.")
    host, usual = _host(url), _PORTS[url.scheme]
    if why := host_objection(host):
        raise ToolError(f"the host of {shown!r} cannot be used: {why}.")
    if not any(place.holds(host, _port(url), usual) for place in rules.allow):
        port = "" if _port(url) == usual else f":{_port(url)}"
        raise ToolError(f"{host[:100]}{port} is not allowed. Allowed: {_listed(rules.allow)}.")
    return url.copy_with(fragment=None)  # which no server ever sees


def _listed(allow: Sequence[Place]) -> str:
    names = [p.host if p.port is None else f"{p.host}:{p.port}" for p in allow[:10]]
    return ", ".join(names + ["..."] * (len(allow) > 10)) or "nothing"


def _host(url: httpx.URL) -> str:
    """As it is looked up, checked and named to the server: never in two ways."""
    return url.raw_host.decode("ascii").lower().removesuffix(".")


def _port(url: httpx.URL) -> int:
    return _PORTS[url.scheme] if url.port is None else url.port


def _pinned(
    client: httpx.AsyncClient, method: str, url: httpx.URL, address: str, body: str
) -> httpx.Request:
    """A request to the address that was checked, which the server reads as one to the host."""
    return client.build_request(
        method,
        url.copy_with(host=address),
        headers={**_HEADERS, "Host": url.netloc.decode("ascii")},
        content=body.encode("utf-8", "replace") if body else None,
        extensions={"sni_hostname": _host(url)} if url.scheme == "https" else {},
    )


async def _answer(
    method: str, url: httpx.URL, response: httpx.Response
) -> tuple[Answer, str | None]:
    status, kind = response.status_code, response.headers.get("content-type", "")[:200]
    location = response.headers.get("location")
    if status in _REDIRECTS and location:
        try:
            following = str(url.join(location))
        except (httpx.InvalidURL, ValueError):
            raise ToolError(f"{_host(url)} redirects to {location[:200]!r}, no URL.") from None
        return Answer(status, str(url), kind, b""), following
    raw = b"" if method == "HEAD" else await _received(_host(url), response)
    encoding = response.headers.get("content-encoding", "")
    body = raw if not raw else await in_thread(_unpacked, _host(url), encoding, raw)
    return Answer(status, str(url), kind, body), None


async def _received(host: str, response: httpx.Response) -> bytes:
    raw, chunks = bytearray(), 0
    async for chunk in response.aiter_raw():
        raw += chunk
        chunks += 1
        if chunks % _BREATH == 0:
            await asyncio.sleep(0)
        if len(raw) > MAX_RAW:
            raise ToolError(f"{host} sends more than {MAX_RAW} bytes. Ask for something smaller.")
    return bytes(raw)


def _unpacked(host: str, encoding: str, raw: bytes) -> bytes:
    """The body without its packing; how much comes out is limited before it comes out."""
    names = [name.strip().lower() for name in encoding.split(",")]
    packing = [name for name in names if name not in ("", "identity")]
    if not packing:
        return raw
    if len(packing) > 1 or packing[0] not in ("gzip", "x-gzip", "deflate"):
        raise ToolError(f"{host} packs what it sends as {', '.join(packing)[:80]}, not as gzip.")
    out = bytearray()
    try:
        for _ in range(MAX_MEMBERS):
            unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
            out += unpacker.decompress(raw, MAX_DECODED + 1 - len(out))
            if len(out) > MAX_DECODED:
                raise ToolError(f"what {host} sends unpacks to more than {MAX_DECODED} bytes.")
            raw = unpacker.unused_data
            if not raw:  # also where the last part was cut short
                return bytes(out)
    except zlib.error:
        raise ToolError(f"what {host} sends cannot be unpacked.") from None
    raise ToolError(f"what {host} sends is packed in more than {MAX_MEMBERS} parts.")
