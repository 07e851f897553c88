"""Plain values → one HTML page that needs nothing else.

In    what a page shows, block by block
Out   its text, piece by piece
Not   a request to anywhere: the page's own policy forbids each, but for one that is served

Everything that a run holds goes into blocks of JSON, as data: jinja escapes it, the script puts
it on the page as text. Script and style are ours, and the policy names them by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

SCRIPTS = ("text", "strip", "turns", "facts", "state", "tasks", "page", "keys")
_HIDDEN = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_HIDDEN |= {code: f"\\u{code:04x}" for code in (0x2028, 0x2029, 0x200E, 0x200F, 0x061C)}
"""What would turn the text around for someone who reads the page's source."""

Block = tuple[str, Any]
"""Name and value."""


def page(title: str, story: Mapping[str, Any], blocks: Iterable[Block]) -> Iterator[str]:
    """A page.

    Args:
        title: Of its window.
        story: What it shows but for conversations.
        blocks: Conversations; made and let go one after the other.
    """
    template = _environment().get_template("page.html.j2")
    return template.generate(
        title=title,
        policy=policy(live=bool(story["live"])),
        style=Markup(_style()),  # ours, not a run's
        script=Markup(_script()),
        story=story,
        blocks=blocks,
    )


@cache
def policy(*, live: bool) -> str:
    """What the page may do: its own style and script, and nothing from elsewhere."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash(_script())}'",
            f"style-src '{_hash(_style())}'",
            "img-src data:",
            *(["connect-src 'self'"] if live else []),
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def text_of(value: Any, **how: Any) -> str:
    """JSON as compact as it gets, and readable as Unicode."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Halves of pairs cannot be written; inside JSON an escape says the same.
    return text.translate(_HIDDEN).encode("utf-8", "backslashreplace").decode()


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _style() -> str:
    return _own("page.css")


@cache
def _script() -> str:
    return "\n".join(_own(f"{name}.js") for name in SCRIPTS)


def _own(name: str) -> str:
    return (files("agentrl.view") / "static" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("agentrl.view", "static"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_function"] = text_of
    environment.policies["json.dumps_kwargs"] = {}
    return environment
