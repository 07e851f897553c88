"""`agentrl report`: runs and evaluations → one page, and the same in Markdown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from agentrl import disk
from agentrl.cli.browser import opens_pages, show
from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.errors import UsageError
from agentrl.visible import visible

EXAMPLES = (
    "runs/tool_math-001",
    "runs/pods runs/grpo --out comparison",
)
NAMES = ("report.html", "report.md")
MOST = 8
"""Runs in one report: more curves can't be told apart."""


def run(words: Sequence[str]) -> int:
    """Write both files."""
    parser = Parser("report", "tell of runs on one page, and in Markdown", EXAMPLES)
    parser.add_argument(
        "run",
        nargs="+",
        metavar="RUN",
        help="a run's folder or its name under --runs, or a folder of `agentrl eval --out`; "
        "others are compared with the first",
    )
    parser.add_argument("--out", metavar="DIR", help="folder of both files [that of the first]")
    opens_pages(parser)
    args = parser.read(words)
    if len(args.run) > MOST:
        raise UsageError(f"{len(args.run)} runs: curves can't be told apart. Give {MOST} at most.")
    with output(args.json) as out:
        from agentrl.log import cleaner
        from agentrl.report.facts import facts_of
        from agentrl.report.markdown import markdown
        from agentrl.report.page import html
        from agentrl.report.sections import document

        every = [facts_of(text, args.runs) for text in args.run]
        found = document(every, cleaner(os.environ))
        folder = Path(args.out) if args.out else every[0].path
        page, twin = _write(folder, html(found), markdown(found))
        out.document = {
            "html": str(page),
            "markdown": str(twin),
            "verdicts": [{"of": answer.of, **asdict(answer.verdict)} for answer in found.answers],
            "missing": list(found.notes),
        }
        for answer in found.answers:
            named = f"{answer.of}: " if len(every) > 1 else ""
            out.say(visible(f"{named}{' '.join((answer.verdict.text, *answer.verdict.notes))}"))
        for note in found.notes:
            out.say(visible(f"note: {note}"))
        out.say(visible(f"{page}\n{twin}"))
        if args.open:
            show(page.resolve().as_uri())
    return 0


def _write(folder: Path, *texts: str) -> list[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / name for name in NAMES]
        for path, text in zip(paths, texts, strict=True):
            disk.replace(path, text)
    except OSError as error:
        raise UsageError(
            f"--out {folder}: cannot be written ({error.strerror}). Give a folder that can."
        ) from error
    return paths
