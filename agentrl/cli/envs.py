"""`agentrl envs`: what can be played."""

from __future__ import annotations

from collections.abc import Sequence

from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.errors import UsageError, suggestion

EXAMPLES = ("list", "list --json")
ACTIONS = ("list",)


def run(words: Sequence[str]) -> int:
    """List the environments by name."""
    parser = Parser("envs", "list the environments that can be named", EXAMPLES)
    parser.add_argument("action", nargs="?", default="list", help="list")
    args = parser.read(words)
    if args.action not in ACTIONS:
        hint = suggestion(args.action, ACTIONS, f"Known: {', '.join(ACTIONS)}.")
        raise UsageError(f"agentrl envs {args.action}: no such action. {hint}")
    with output(args.json) as out:
        from agentrl import registry

        lines = registry.first_lines()
        found = [{"name": name, "summary": summary} for name, summary in lines.items()]
        out.document = found
        width = max((len(row["name"]) for row in found), default=0) + 2
        for row in found:
            out.say(f"{row['name']:<{width}}{row['summary']}")
    return 0
