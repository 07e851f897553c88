"""Documents that stand elsewhere in the checkout become pages of the site.

In    the README files of environments and tools, the README, CONTRIBUTING.md
Out   pages, with the links between them and docs/ turned around
Not   links to source files: on the site those are text
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "environments/README.md": "environments/index.md",
    "tools/README.md": "tools.md",
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Where a document is in the checkout, and on the site."""
_LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages, links turned around."""
    for origin, page in ELSEWHERE.items():
        text = (ROOT / origin).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=turned(text, origin)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn the links of a page of docs/ that lead out of it."""
    path = page.file.src_uri
    return markdown if path in ELSEWHERE.values() else turned(markdown, f"docs/{path}")


def turned(text: str, origin: str) -> str:
    """The text with links as they are on the site.

    Args:
        text: Markdown.
        origin: Its place in the checkout.
    """
    here = ELSEWHERE.get(origin) or origin.removeprefix("docs/")
    return _LINK.sub(lambda found: _turned_link(found, origin, here), text)


def _turned_link(found: re.Match[str], origin: str, here: str) -> str:
    image, words, target, anchor = found.groups()
    if not target or re.match(r"[a-z]+:", target):
        return found.group(0)
    place = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
    page = ELSEWHERE.get(place) or (place.removeprefix("docs/") if _on_site(place) else None)
    if page is None:
        return words
    there = posixpath.relpath(page, posixpath.dirname(here) or ".")
    return f"{image}[{words}]({there}{anchor or ''})"


def _on_site(place: str) -> bool:
    return place.startswith("docs/") and (ROOT / place).is_file()
