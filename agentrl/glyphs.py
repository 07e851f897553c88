"""Glyphs: signs that not every terminal has, and what stands for them there.

In    text, the encoding of where it goes
Out   the same text, or one of ASCII with the same meaning
Not   control characters (visible.py)
"""

from __future__ import annotations

import codecs
from typing import TextIO

SPARKS = "▁▂▃▄▅▆▇█"
"""Eight heights, the lowest first."""
_PLAIN = {
    **dict(zip(SPARKS, "_.-:=+*#", strict=True)),
    **{"·": "|", "→": "->", "…": "...", "±": "+-", "━": "=", "╸": "-", "─": "-", "²": "^2"},
    **{"✓": "+", "✗": "x", "│": "|", "\u2014": "-", "\u00d7": "x"},
}
_TABLE = str.maketrans(_PLAIN)


def is_rich(encoding: str | None) -> bool:
    """Whether every sign can be written so."""
    try:
        return codecs.lookup(encoding or "ascii").name.startswith("utf")
    except LookupError:
        return False


def spelled(text: str, rich: bool) -> str:
    """The text as it is, or in ASCII."""
    if rich or text.isascii():
        return text
    return text.translate(_TABLE).encode("ascii", "backslashreplace").decode("ascii")


def forgiving(stream: TextIO) -> None:
    """Let a stream write out as escapes what its encoding has not: no word is worth a crash."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and not is_rich(stream.encoding):
        reconfigure(errors="backslashreplace")
