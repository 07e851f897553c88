"""The pictures of the live view: `python -m docs.shots.live [RUN --step K]`.

In    a run's folder, or the recording of one that lies beside this file
Out   live.jsonl beside this file, images/live.svg, and the screen in live.md
Not   a run: training is done before
"""

from __future__ import annotations

import argparse
import io
import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from agentrl.screen.frame import frame
from agentrl.screen.state import Screen, seen
from docs.shots import recording
from docs.shots.replay import events_of

HERE = Path(__file__).parent
RECORDING = HERE / "live.jsonl"
IMAGE = HERE.parent / "images" / "live.svg"
PAGE = HERE.parent / "live.md"
COLUMNS = 100
_BLOCK = re.compile(r"(?<=```text\n)╭.*?╯\n(?=```)", re.DOTALL)


def screen_after(timed: Sequence[recording.Timed]) -> tuple[Screen, float]:
    """What is known after all events, and the time of the last."""
    screen = Screen(timed[0][0])
    for at, event in timed:
        screen = seen(screen, event, at)
    return screen, timed[-1][0]


def text(timed: Sequence[recording.Timed], columns: int = COLUMNS, *, rich: bool = True) -> str:
    """The screen in words."""
    console = Console(width=columns, file=io.StringIO(), color_system=None, legacy_windows=False)
    with console.capture() as written:
        console.print(frame(*screen_after(timed), columns, rich=rich))
    return written.get()


def picture(timed: Sequence[recording.Timed], columns: int = COLUMNS) -> str:
    """The screen as an SVG; no font is fetched for it."""
    console = Console(
        width=columns, file=io.StringIO(), record=True, force_terminal=True, legacy_windows=False
    )
    console.print(frame(*screen_after(timed), columns))
    svg = console.export_svg(title="agentrl train", unique_id="live")
    local = re.sub(r"\s*@font-face \{.*?\}\n", "\n", svg, flags=re.DOTALL)
    named = "<title>The live view of a training run</title>"
    return local.replace('xmlns="http://www.w3.org/2000/svg">', f"{SVG}>{named}", 1)


SVG = 'role="img" xmlns="http://www.w3.org/2000/svg"'


def page(timed: Sequence[recording.Timed]) -> str:
    """The page with the screen as it is now."""
    return _BLOCK.sub(lambda _: text(timed), PAGE.read_text(encoding="utf-8"), count=1)


def main() -> None:
    """Make all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--step", type=int, default=31)
    parser.add_argument("--part", type=float, default=0.7)
    args = parser.parse_args()
    if args.run is not None:
        recording.write(RECORDING, events_of(args.run, args.step, args.part))
    timed = recording.read(RECORDING)
    IMAGE.write_text(picture(timed), encoding="utf-8")
    PAGE.write_text(page(timed), encoding="utf-8")


if __name__ == "__main__":
    main()
