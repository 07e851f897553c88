"""`agentrl view`: what was said, what was kept and why, as a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentrl.cli.browser import opens_pages, show
from agentrl.cli.entry import DONE
from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.cli.rows import whole
from agentrl.errors import UsageError
from agentrl.visible import visible

if TYPE_CHECKING:
    from agentrl.view.book import Book

EXAMPLES = (
    "runs/tool_math-001 --step 40",
    "evals/before evals/after --out compared.html",
)
MOST = 2
"""Runs side by side."""
PAGE = "view.html"


def run(words: Sequence[str]) -> int:
    """Write the page, or serve it."""
    args = _parser().read(words)
    if len(args.what) > MOST:
        raise UsageError(f"{args.what[MOST]}: two stand side by side, not more. Name two.")
    from agentrl.cli.chosen_again import chooser
    from agentrl.view.book import Reader, write

    step = None if args.step is None else whole("--step", args.step)
    read = Reader(args.what, args.runs, step, args.task, chooser)
    if args.serve:
        return _serve(read, args.port, as_json=args.json, opens=args.open)
    with output(args.json) as out:
        book = read()
        paths = write(book, Path(args.out) if args.out else book.stories[0].folder / PAGE)
        out.document = {"path": str(paths[0]), "pages": [str(path) for path in paths]}
        more = f" and {len(paths) - 1} more beside it" if len(paths) > 1 else ""
        out.say(f"{visible(str(paths[0]))}{more}")
        if args.open:
            show(paths[0].resolve().as_uri())
    return DONE


def _serve(read: Callable[[], Book], port: int, *, as_json: bool, opens: bool) -> int:
    """Show the run as it grows, until Ctrl-C."""
    from agentrl.view.server import serving

    with serving(read, port) as (url, wait):
        told = json.dumps({"url": url}) if as_json else f"{url} (Ctrl-C ends it)"
        sys.stdout.write(f"{told}\n")
        sys.stdout.flush()
        if opens:
            show(url)
        wait()
    return DONE


def _parser() -> Parser:
    parser = Parser("view", "show trajectories, and why each was kept, as a page", EXAMPLES)
    parser.add_argument(
        "what",
        nargs="+",
        metavar="RUN",
        help="a run, a folder of `agentrl eval --out`, RUN@STEP or a file of episodes; two of "
        "them stand side by side",
    )
    parser.add_argument("--step", metavar="K", help="only this step, and what was held out then")
    parser.add_argument(
        "--task", default="", metavar="TEXT", help="only tasks whose id or words hold this"
    )
    parser.add_argument("--out", metavar="FILE", help=f"the page [{PAGE} in the first folder]")
    opens_pages(parser)
    parser.add_argument(
        "--serve",
        action="store_true",
        help="serve it to this machine alone, and follow a run that goes on",
    )
    parser.add_argument("--port", type=int, default=0, help="of --serve; 0 takes a free one [0]")
    return parser
