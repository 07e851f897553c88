"""A strip in colours: what it says in words and marks, once more.

In    the text that strip.py makes
Out   the same text for rich, with what was kept in green
Not   a fact of its own: without colours nothing is lost
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

KEPT = re.compile(r"(?<=^  kept    ).*$")
STYLES = (
    (re.compile(r"^(group .*?|\S.* step \d+)(?=:)"), "bold"),
    (re.compile(r"^  [a-z ]{7}(?= )"), "cyan"),
    (re.compile(r"\[[^][]+\]"), "bold green"),
    (KEPT, "bold green"),
    (re.compile(r"spread \S+ -> \S+"), "bold"),
    (re.compile(r"^out: .*|Short ones are rewarded.*"), "yellow"),
)


def tinted(strip: str) -> Text:
    """The lines with colours."""
    from rich.text import Text

    whole = Text(no_wrap=True, overflow="crop")
    for number, words in enumerate(strip.split("\n")):
        line = Text(words)
        for pattern, style in STYLES:
            line.highlight_regex(pattern, style)
        whole.append("\n" if number else "").append_text(line)
    return whole
