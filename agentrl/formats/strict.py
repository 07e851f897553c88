"""JSON as calls need it: nothing that can be read in two ways.

In    a text and where a value begins
Out   Decoded: the value and its end, or why there is none
Not   strict in one thing: raw newlines inside strings pass, since policies write code so and
      nothing else can be meant
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn

MAX_DEPTH = 100
"""Arrays and objects inside each other; deeper ones would fail later, in somebody else's code."""

_WINDOW = 2048
_LONGEST = 16
"""Longer than any escape or literal: an error nearer to a window's end may be the cut's."""

_HALF = re.compile("[\ud800-\udfff]")
_FENCE = re.compile(r"\s*+(?:```(?:json)?\s*?\n)?\s*+")


@dataclass(frozen=True, slots=True)
class Decoded:
    """A JSON value inside a text."""

    value: Any
    end: int
    """Where the text goes on; where there is no value, where it should have begun."""
    why: str = ""
    """Why there is no value; empty where there is one."""
    fenced: bool = False
    """A code fence was opened before it."""


def decode(text: str, start: int) -> Decoded:
    """The value at `start`, after spaces and the opening of a code fence."""
    fence = _FENCE.match(text, start)
    begin = fence.end() if fence else start
    try:
        value, end = _raw_decode(text, begin)
        _check(value)
    except RecursionError:
        return Decoded(None, begin, "the JSON is nested too deeply")
    except json.JSONDecodeError as error:
        return Decoded(None, begin, f"not valid JSON ({error.msg})")
    except ValueError as error:
        return Decoded(None, begin, f"not valid JSON ({str(error)[:60]})")
    return Decoded(value, end, fenced="`" in text[start:begin])


def decode_all(text: str) -> Decoded:
    """The value that is the whole text but for spaces around it."""
    found = decode(text, 0)
    if not found.why and (text[found.end :].strip() or text.lstrip().startswith("`")):
        return Decoded(None, 0, "something stands beside the value")
    return found


def kind(value: Any) -> str:
    """What a JSON value is, with its article."""
    if value is None:
        return "null"
    kinds = {list: "an array", str: "a string", bool: "a boolean", dict: "an object"}
    return kinds.get(type(value), "a number")


def _raw_decode(text: str, begin: int) -> tuple[Any, int]:
    """As the decoder's own, in a window that grows.

    An error of the decoder counts the lines before it, from the start of what it was given:
    many broken calls in one text would take time quadratic in the text.
    """
    size = _WINDOW
    while True:
        window = text[begin : begin + size]
        whole = begin + size >= len(text)
        try:
            value, end = _DECODER.raw_decode(window)
        except json.JSONDecodeError as error:
            early = error.pos + _LONGEST < len(window) and not error.msg.startswith("Untermin")
            if whole or early:
                raise
        else:
            if whole or end < len(window):
                return value, begin + end
        size *= 4


def _check(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        if not level:
            return
        level = [part for whole in level for part in _parts(whole)]
    raise RecursionError


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, str) and _HALF.search(value):
        raise ValueError("half of a surrogate pair")
    return value if isinstance(value, list) else []


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError("a key stands there twice")
    return out


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number out of range")
    return value


_DECODER = json.JSONDecoder(
    strict=False, object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float
)
