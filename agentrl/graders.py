"""Graders: find the answer in a text, and compare it exactly.

In    what a policy said; a gold answer
Out   `final_answer`, the text of the answer; `math_equal`, a Verdict
Not   algebra: what is neither the same text nor a number on both sides stays undecided
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from agentrl.exact import parse_number

_LABEL = re.compile(r"^[ \t*_#>-]*answer[ \t*_]*[:=](.*)$", re.IGNORECASE | re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w.])[-+\N{MINUS SIGN}]?\d[\d,]*(?:\.\d+)?(?:/\d+)?(?!\w)")
_BOX = "\\boxed{"
_BRACE = re.compile(r"\\boxed\{|[{}]")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is the gold answer."""

    correct: bool | None
    """None where it could not be decided."""
    reason: str
    seconds: float


def final_answer(text: str) -> str | None:
    r"""The answer in a text: the last whole `\boxed{}`, else `Answer:`, else the last number."""
    boxed = _last_box(text)
    if boxed is not None:
        return boxed.strip()
    labels = _LABEL.findall(text)
    if labels and labels[-1].strip():
        return _bare(labels[-1])
    numbers = _NUMBER.findall(text)
    return numbers[-1].rstrip(",") if numbers else None


def math_equal(gold: object, answer: object, *, timeout: float = 2.0) -> Verdict:
    """Compare two answers as text, then as exact numbers."""
    begin = time.perf_counter()
    correct, reason = _compare(_bare(str(gold)), _bare(str(answer)))
    return Verdict(correct, reason, time.perf_counter() - begin)


def _compare(gold: str, answer: str) -> tuple[bool | None, str]:
    if gold == answer:
        return True, "same text"
    values = parse_number(gold), parse_number(answer)
    if None in values:
        unread = gold if values[0] is None else answer
        return None, f"undecided: {unread[:80]!r} is not a number"
    return values[0] == values[1], "compared as exact numbers"


def _last_box(text: str) -> str | None:
    """Content of the box that opens last among those that close."""
    open_braces: list[int] = []
    best: tuple[int, int] | None = None
    for mark in _BRACE.finditer(text):
        if mark[0] != "}":
            open_braces.append(mark.end() if mark[0] == _BOX else -1)
        elif open_braces:
            start = open_braces.pop()
            if start > (best[0] if best else -1):
                best = start, mark.start()
    return None if best is None else text[slice(*best)]


def _bare(answer: str) -> str:
    """An answer without what surrounds it: spaces, dollars, emphasis, a full stop."""
    text = answer.strip().strip("*_` ").removeprefix("$").removesuffix("$").strip()
    return text.removesuffix(".").strip()
