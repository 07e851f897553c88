"""`agentrl envs`: what can be played; looks at it, checks of it, a new one."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.errors import UsageError, suggestion

EXAMPLES = ("check tool_math", "play tool_math --split test")
ACTIONS = {
    "list": "the environments that can be named",
    "show": "an environment as a policy sees it",
    "check": "look for what breaks reinforcement learning in it",
    "play": "be the policy yourself",
    "new": "write one to begin with, and its test",
}


def run(words: Sequence[str]) -> int:
    """List the environments, or do what the first word says."""
    action = words[0] if words and not words[0].startswith("-") else ""
    if action in ACTIONS and action != "list":
        module = importlib.import_module(f"agentrl.cli.envs_{action}")
        code: int = module.run(words[1:])
        return code
    if action and action not in ACTIONS:
        hint = suggestion(action, ACTIONS, f"Known: {', '.join(ACTIONS)}.")
        raise UsageError(f"agentrl envs {action}: no such action. {hint}")
    parser = Parser("envs", "list, show, check, play and write environments", EXAMPLES)
    told = " · ".join(f"{name}: {what}" for name, what in ACTIONS.items())
    parser.add_argument("action", nargs="?", default="list", help=f"{told} [list]")
    args = parser.read(words)
    if args.action != "list":
        raise UsageError(
            f"agentrl envs: the action comes first. Write agentrl envs {args.action} ..."
        )
    return _list(args.json)


def _list(as_json: bool) -> int:
    with output(as_json) as out:
        from agentrl import registry

        lines = registry.first_lines()
        found = [{"name": name, "summary": summary} for name, summary in lines.items()]
        out.document = found
        width = max((len(row["name"]) for row in found), default=0) + 2
        for row in found:
            out.say(f"{row['name']:<{width}}{row['summary']}")
    return 0
