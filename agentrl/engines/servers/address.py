"""`--url` → the address of a server.

In    text as a person gives it
Out   scheme, host and port, nothing behind them
Not   a look whether anybody answers there
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

from agentrl.errors import UsageError

EXAMPLE = "Write it like http://127.0.0.1:8000."


def addresses(texts: Sequence[str]) -> tuple[str, ...]:
    """Every address, as it is used.

    Raises:
        UsageError: one of them is none, or is given twice.
    """
    found: list[str] = []
    for text in texts:
        url = _address(text)
        if url in found:
            raise UsageError(f"--url {_bare(text)}: it is given twice. Leave one out.")
        found.append(url)
    return tuple(found)


def is_loopback(url: str) -> bool:
    """Whether the server is on this machine and only here."""
    return is_local(urlsplit(url).hostname or "")


def is_local(host: str) -> bool:
    """Whether nobody outside this machine reaches a host of this name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _address(text: str) -> str:
    parts = _split(text)
    problem = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        problem = "no address of a server"
    elif parts.username is not None or parts.password is not None:
        problem = "it holds a name or a password, which would end up in logs"
    elif parts.path.rstrip("/") or parts.query or parts.fragment:
        rest = text[text.index(parts.netloc) + len(parts.netloc) :]
        problem = f"{rest} is too much: paths are added to it"
    if problem is not None or parts is None:
        raise UsageError(f"--url {_bare(text)}: {problem}. {EXAMPLE}")
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _split(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text.strip())
        _ = parts.port
    except ValueError:
        return None
    return parts


def _bare(text: str) -> str:
    """The text without what may be a password."""
    scheme, mark, rest = text.rpartition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"
