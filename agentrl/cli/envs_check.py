"""`agentrl envs check`: what breaks reinforcement learning in an environment, line by line."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentrl.cli.entry import DONE, PROBLEMS
from agentrl.cli.options import parser_of, split_options
from agentrl.cli.output import output
from agentrl.errors import UsageError
from agentrl.visible import visible

if TYPE_CHECKING:
    from agentrl.checks import Report

EXAMPLES = ("tool_math", "mine.py:Mine --env.size 3 --json")


def run(words: Sequence[str]) -> int:
    """Check an environment."""
    options, rest = split_options(words)
    parser = parser_of("check", "look for what breaks reinforcement learning", EXAMPLES)
    parser.add_argument("--seconds", type=float, default=30.0, help="of one check [30]")
    args = parser.read(rest)
    if not 0 < args.seconds < 1e6:
        raise UsageError(f"--seconds {args.seconds:g}: a check needs some. Give more than 0.")
    with output(args.json) as out:
        from agentrl.checks import check_env

        report = check_env(args.env, options=options, seconds=args.seconds)
        out.document = report.as_json()
        out.say(visible("\n".join(_lines(report, args))))
    return DONE if report.ok else PROBLEMS


def _lines(report: Report, args: argparse.Namespace) -> list[str]:
    shown = report.failed if args.quiet else report.findings
    counts = Counter(finding.status for finding in report.findings)
    told = ", ".join(f"{counts[s]} {s}" for s in ("passed", "failed", "skipped") if counts[s])
    lines = [str(finding) for finding in shown]
    return [*lines, f"{report.env}: {told}"]
