r"""Where the answer stands in what a policy said.

In    a text of any origin and length; the format that the task asked for
Out   the text of the answer, at most 1000 characters, or None
Not   a guess between answers: one that was begun and not ended, or is empty, is none
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from agentrl.errors import UsageError

Format: TypeAlias = Literal["any", "boxed", "label", "tag", "####", "number"]
r"""any: a box, else `Answer:`, else the last number. The others take that one form alone.

boxed: `\boxed{}` or `\fbox{}`. label: a line `Answer: ...`. tag: `<answer>...</answer>`.
####: what follows the last `####` on its line. number: the last number.
"""

MAX_ANSWER = 1000
"""Characters."""

THINKING_ENDS = ("</think>", "</thinking>", "[/THINK]")
THINKING_BEGINS = ("<think>", "<thinking>", "[THINK]")

_LABEL = re.compile(r"^[ \t*_#>-]*answer[ \t*_]*[:=](.*)$", re.IGNORECASE | re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w.])[-+\N{MINUS SIGN}]?\d[\d,]*(?:\.\d+)?(?:/\d+)?(?!\w)")
_BRACE = re.compile(r"\\(?:boxed|fbox)[ \t]*\{|\\[\\{}]|[{}]")
_LOOSE_BOX = re.compile(r"\\(?:boxed|fbox)[ \t]+([^\s\\{}$]+)")


def final_answer(text: str, format: Format = "any") -> str | None:
    r"""The answer in a text: the last whole `\boxed{}`, else `Answer:`, else the last number.

    Only what follows the end of thinking counts. Of nested boxes the innermost is taken, of
    several the last. A box that never closes is no answer, and neither is an empty one.

    Args:
        text: What the policy said.
        format: Take this form alone, as the task asked for it.
    """
    find = _FORMATS.get(format)
    if find is None:
        raise UsageError(
            f"final_answer: format {format!r} is unknown. There are {', '.join(_FORMATS)}."
        )
    found = find(_spoken(text))
    return found if found and len(found) <= MAX_ANSWER else None


def _spoken(text: str) -> str:
    """What was said after thinking; nothing where thinking never ended."""
    ends = [(text.rfind(mark), mark) for mark in THINKING_ENDS]
    place, mark = max(ends)
    if place >= 0:
        return text[place + len(mark) :]
    return "" if text.lstrip().startswith(THINKING_BEGINS) else text


def _any(text: str) -> str | None:
    if "\\boxed" in text or "\\fbox" in text:
        return _boxed(text)
    return _label(text) or _last(text)


def _boxed(text: str) -> str | None:
    """Content of the box that opens last among those that close."""
    open_braces: list[int] = []
    best = (-1, -1)
    for mark in _BRACE.finditer(text):
        if mark[0].endswith("{") and len(mark[0]) != 2:
            open_braces.append(mark.end() if len(mark[0]) > 2 else -1)
        elif mark[0] == "}" and open_braces:
            start = open_braces.pop()
            if start > best[0]:
                best = start, mark.start()
    for loose in _LOOSE_BOX.finditer(text):
        best = max(best, loose.span(1))
    return text[slice(*best)].strip() if best[0] >= 0 else None


def _label(text: str) -> str | None:
    labels = _LABEL.findall(text)
    return bare(labels[-1]) if labels else None


def _tag(text: str) -> str | None:
    end = text.rfind("</answer>")
    begin = text.rfind("<answer>", 0, max(end, 0))
    return text[begin + len("<answer>") : end].strip() if begin >= 0 else None


def _hashes(text: str) -> str | None:
    _, found, rest = text.rpartition("####")
    return rest.strip().partition("\n")[0].strip() if found else None


def _last(text: str) -> str | None:
    last = None
    for last in _NUMBER.finditer(text):  # noqa: B007
        pass
    return last[0].rstrip(",") if last else None


def bare(answer: str) -> str:
    """An answer without what surrounds it: spaces, dollars, emphasis, a full stop."""
    text = answer.strip().strip("*_` ").removeprefix("$")
    text = text if text.endswith("\\$") else text.removesuffix("$")
    text = text.strip()
    return text.removesuffix(".").strip()


_FORMATS = {
    "any": _any,
    "boxed": _boxed,
    "label": _label,
    "tag": _tag,
    "####": _hashes,
    "number": _last,
}
