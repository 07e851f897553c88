"""Somebody's text for a terminal or a page: what would steer it is shown instead.

In    text of a policy, a tool or an author
Out   the same text without control characters, except new lines and tabs
Not   HTML, nor a judgement of what looks alike
"""

from __future__ import annotations

import unicodedata

_KEPT = "\n\t\u200c\u200d"
"""New lines, tabs, and the joiners that some scripts and emoji are spelled with."""
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Controls, invisible marks that change the direction, halves of pairs, other line ends."""


def visible(text: str) -> str:
    """The text with control characters as Python writes them."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in _KEPT or not _is_hidden(c) else _escaped(c) for c in text)


def on_a_line(text: str) -> str:
    """The same with new lines and tabs written out too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
