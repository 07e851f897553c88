"""The picture of the viewer: `python -m docs.shots.view RUN [--at s=step-4]`.

In    the folder of a real run that recorded its tokens, a Chromium
Out   images/view.png: a task that something was kept of, with the log-probs of its turns
Not   a run: training is done before
"""

from __future__ import annotations

import argparse
import io
import tempfile
from pathlib import Path

from PIL import Image

from agentrl.cli import main as agentrl
from tests.browser import browsing

IMAGE = Path(__file__).parent.parent / "images" / "view.png"
WIDTH, HEIGHT = 1280, 930
COLOURS = 160
"""Enough for a page of few colours, in a third of the bytes."""


def taken(page: Path, at: str) -> Image.Image:
    """The page as it opens, with log-probs."""
    with browsing() as browser, tempfile.TemporaryDirectory() as folder:
        tab = browser.open(f"{page.as_uri()}#{at}", width=WIDTH, height=HEIGHT)
        tab.until("document.querySelector('.card')")
        tab.press("l")
        tab.until("document.querySelector('.tokens')")
        found = tab.picture(Path(folder) / "page.png", whole=False).read_bytes()
    return Image.open(io.BytesIO(found))


def main() -> None:
    """Write the page somewhere else, and its picture here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--at", default="", help="behind the # of the page's address")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "view.html"
        assert agentrl(["view", args.run, "--out", str(page)]) == 0
        picture = taken(page, args.at)
    IMAGE.parent.mkdir(exist_ok=True)
    picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(IMAGE, optimize=True)


if __name__ == "__main__":
    main()
