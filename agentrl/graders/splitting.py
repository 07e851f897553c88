r"""Where a text falls apart: separators that stand in no bracket.

In    a text in the one spelling, and what separates its parts
Out   its parts; or its brackets and what stands in them
Not   meaning; ( and ] are a pair here, since half-open intervals are written so
"""

from __future__ import annotations

import re

from agentrl.graders.latex import CLOSE, OPEN

_GROUPED = re.compile(r"[-+]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?%?")
_COMMA = re.compile(r"[,;]")
_WORD = re.compile(r"(?<![A-Za-z\\])(?:,\s*)?(?:and|or)(?![A-Za-z])")
_RELATION = re.compile(r"[<>≤≥≠=∈]")
_UNION = re.compile("\N{UNION}")


def apart(text: str, separator: re.Pattern[str]) -> list[str]:
    """The parts between separators outside of all brackets."""
    parts, begin = [], 0
    for found in _outside(text, separator):
        parts.append(text[begin : found.start()])
        begin = found.end()
    return [*parts, text[begin:]]


def several(text: str) -> list[str]:
    """The parts of a list: between "and", "or" and commas that group no thousands."""
    return [part for piece in apart(text, _WORD) for part in _commas(piece)]


def alternatives(text: str) -> list[str]:
    """The parts between "or", if nothing else separates."""
    return apart(text, re.compile(r"(?<![A-Za-z\\])or(?![A-Za-z])"))


def related(text: str) -> tuple[list[str], list[str]]:
    """The sides of a relation, and the signs between them."""
    return apart(text, _RELATION), [found[0] for found in _outside(text, _RELATION)]


def united(text: str) -> list[str]:
    """The parts of a union."""
    return apart(text, _UNION)


def every_comma(text: str) -> list[str]:
    """The parts between commas, also where they might group thousands."""
    return apart(text, _COMMA)


def inside(text: str) -> tuple[str, str] | None:
    """Both brackets of a text that is in brackets as a whole, and what is in them."""
    if len(text) < 2 or text[0] not in OPEN or text[-1] not in CLOSE:
        return None
    depth = 0
    for place, character in enumerate(text):
        depth += (character in OPEN) - (character in CLOSE)
        if depth == 0:
            whole = place == len(text) - 1
            return (text[0] + text[-1], text[1:-1].strip()) if whole else None
    return None


def _commas(text: str) -> list[str]:
    pieces = apart(text, re.compile(r";|,(?=\s)"))
    if len(pieces) == 1 and _GROUPED.fullmatch(text.strip(" ¤€£")):
        return pieces
    if all(_GROUPED.fullmatch(piece.strip(" ¤€£")) or "," not in piece for piece in pieces):
        return pieces
    return every_comma(text)


def _outside(text: str, separator: re.Pattern[str]) -> list[re.Match[str]]:
    depths, depth = [], 0
    for character in text:
        depth += (character in OPEN) - (character in CLOSE)
        depths.append(depth)
    return [found for found in separator.finditer(text) if depths[found.start()] == 0]
