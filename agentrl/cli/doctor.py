"""`agentrl doctor`: what this machine can do, line by line, and what to do about the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from agentrl.cli.entry import DONE, PROBLEMS
from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.visible import visible

if TYPE_CHECKING:
    from agentrl.doctor.finding import Finding

EXAMPLES = ("", "--out /data/runs --json")


def run(words: Sequence[str]) -> int:
    """Look at this machine."""
    parser = Parser("doctor", "say what this machine can do, with a cure for each lack", EXAMPLES)
    parser.add_argument(
        "--out", default="runs", metavar="DIR", help="folder where runs are to be written [runs]"
    )
    args = parser.read(words)
    with output(args.json) as out:
        from agentrl.doctor.examine import examine

        found = []
        for one in examine(args.out):
            found.append(one)
            if not args.quiet or one.status != "ok":
                out.say(visible(_line(one)))
        stops = [one.name for one in found if one.stops]
        out.document = {"able": not stops, "findings": [asdict(one) for one in found]}
        out.say(f"training can't run: {', '.join(stops)}" if stops else "training can run")
    return PROBLEMS if stops else DONE


def _line(one: Finding) -> str:
    text = f"{one.status:<9}{one.name:<21}{' '.join(one.said.split())}"
    return f"{text}\n{'':<30}-> {' '.join(one.fix.split())}" if one.fix else text
