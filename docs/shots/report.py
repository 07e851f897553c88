"""The picture of a report: `python -m docs.shots.report RUN [RUN...]`.

In    folders of real runs, a Chromium
Out   images/report.png: the page from its top to the end of its curves
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

IMAGE = Path(__file__).parent.parent / "images" / "report.png"
WIDTH = 1180
COLOURS = 128
"""Enough for a page of few colours, in a third of the bytes."""


def taken(page: Path, width: int = WIDTH) -> Image.Image:
    """The page as far as the end of its first section."""
    with browsing() as browser, tempfile.TemporaryDirectory() as folder:
        tab = browser.open(page, width=width, height=900)
        end = tab.js(
            "document.querySelectorAll('main > section')[1].getBoundingClientRect().bottom"
        )
        found = tab.picture(Path(folder) / "page.png").read_bytes()
    return Image.open(io.BytesIO(found)).crop((0, 0, width, round(end)))


def main() -> None:
    """Write the report somewhere else, and its picture here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="+")
    runs = parser.parse_args().run
    with tempfile.TemporaryDirectory() as folder:
        assert agentrl(["report", *runs, "--out", folder]) == 0
        picture = taken(Path(folder) / "report.html")
    IMAGE.parent.mkdir(exist_ok=True)
    picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(IMAGE, optimize=True)


if __name__ == "__main__":
    main()
