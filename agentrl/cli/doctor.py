"""`agentrl doctor`: what this machine can do, line by line, and what to do about the rest."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from agentrl.cli.entry import DONE, PROBLEMS
from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.doctor.finding import Finding
from agentrl.visible import visible

EXAMPLES = ("", "--out /data/runs --json")


def run(words: Sequence[str]) -> int:
    """Look at this machine."""
    parser = Parser("doctor", "say what this machine can do, with a cure for each lack", EXAMPLES)
    parser.add_argument(
        "--out", default="runs", metavar="DIR", help="folder where runs are to be written [runs]"
    )
    args = parser.read(words)
    with output(args.json) as out:
        found = []
        for one in _looked_at(args.out):
            found.append(one)
            if not args.quiet or one.status != "ok":
                out.say(visible(_line(one)))
        stops = [one.name for one in found if one.stops]
        out.document = {"able": not stops, "findings": [asdict(one) for one in found]}
        out.say(f"training can't run: {', '.join(stops)}" if stops else "training can run")
    return PROBLEMS if stops else DONE


def _looked_at(out: str) -> Iterator[Finding]:
    """Everything; where even looking needs a package that is not there, only that."""
    try:
        from agentrl.doctor.examine import examine
    except ModuleNotFoundError as error:
        fix = f"Install what agentrl needs: {sys.executable} -m pip install agentrl-pods"
        name = (error.name or "").partition(".")[0]
        yield Finding("packages", "missing", f"{name} is not installed", fix, needed=True)
    else:
        yield from examine(out)


def _line(one: Finding) -> str:
    text = f"{one.status:<9}{one.name:<21}{' '.join(one.said.split())}"
    return f"{text}\n{'':<30}-> {' '.join(one.fix.split())}" if one.fix else text
