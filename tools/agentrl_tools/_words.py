"""Words of a text, in any script.

In    text
Out   its words as they are compared: without case, accents or forms of one letter
Not   stems, stop words or a dictionary: scripts without spaces give characters and their pairs
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese and Japanese
)
_UNSPACED_LETTER = re.compile(f"[{_UNSPACED}]")
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_ASCII = re.compile("[a-z0-9_]+")
_ACCENTS = dict.fromkeys(range(0x300, 0x370))
"""Marks of Latin, Greek and Cyrillic; those of other scripts tell words apart."""


class _Letters(dict[int, str]):
    """What each character becomes, worked out when it is first met: itself, or a space."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        kept = letter == "_" or unicodedata.category(letter)[0] in "LMN"
        self[code] = letter if kept else " "
        return self[code]


def words_of(text: str) -> list[str]:
    """Words in the order of the text."""
    if text.isascii():
        return _ASCII.findall(text.lower())
    bare = unicodedata.normalize("NFKD", text).casefold().translate(_ACCENTS)
    spaced = unicodedata.normalize("NFKC", bare).translate(_Letters())
    return [piece for word in spaced.split() for piece in _pieces(word)]


def _pieces(word: str) -> list[str]:
    found: list[str] = []
    for run in _RUN.findall(word):
        if _UNSPACED_LETTER.match(run):
            found += [*run, *(a + b for a, b in pairwise(run))]
        else:
            found.append(run)
    return found
