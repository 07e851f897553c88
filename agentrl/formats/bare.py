"""JSON bodies of calls that nothing closes but the text's end, the next call, or a mark.

In    the text, where a body begins, what may follow it
Out   Body: the value, where the text goes on, or why there is none
Not   forgiving: words after a body spoil it, since nothing tells them from a part of it
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from agentrl.formats.call import cut_or
from agentrl.formats.strict import decode
from agentrl.message import FinishReason

_SPACE = re.compile(r"\s*+")
_CLOSE = re.compile(r"\s*+(?:```)?\s*+")
"""After a body that opened a fence; any other fence there quotes the call."""


@dataclass(frozen=True, slots=True)
class Body:
    """A JSON value and what became of it."""

    value: Any
    source: str
    after: int
    """Where the text goes on."""
    why: str = ""
    """Why it is no call; empty for a sound body."""


def body(
    text: str,
    start: int,
    marks: re.Pattern[str],
    finish_reason: FinishReason,
    follows: re.Pattern[str] | None = None,
) -> Body:
    """The JSON value at `start`, which the text's end, a mark or `follows` must end.

    A body that is none ends at the next mark: no decoder can tell where else.
    """
    found = decode(text, start)
    stop = found.end
    if not found.why:
        space = (_CLOSE if found.fenced else _SPACE).match(text, found.end)
        stop = space.end() if space else found.end
        if stop == len(text) or (follows or marks).match(text, stop):
            return Body(found.value, text[start : found.end], stop)
    mark = marks.search(text, stop)
    after = mark.start() if mark else len(text)
    why = found.why or "something follows the JSON"
    at_end = bool(found.why) and mark is None
    return Body(found.value, text[start:after], after, cut_or(why, at_end, finish_reason))
