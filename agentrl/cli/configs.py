"""`agentrl config`: looks at settings, and at files of them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from agentrl.cli.parser import Parser
from agentrl.errors import UsageError, suggestion

EXAMPLES = ("show --config tool_math --m 16", "check mine.toml")
ACTIONS = {
    "show": "every setting, and where it comes from",
    "check": "look for mistakes in files",
    "diff": "what differs between two files or runs",
    "schema": "a JSON schema of the files, for editors",
}


def run(words: Sequence[str]) -> int:
    """Do what the first word says."""
    action = words[0] if words and not words[0].startswith("-") else ""
    if action in ACTIONS:
        module = importlib.import_module(f"agentrl.cli.config_{action}")
        code: int = module.run(words[1:])
        return code
    if action:
        hint = suggestion(action, ACTIONS, f"Known: {', '.join(ACTIONS)}.")
        raise UsageError(f"agentrl config {action}: no such action. {hint}")
    parser = Parser("config", "look at settings, and at files of them", EXAMPLES)
    told = " · ".join(f"{name}: {what}" for name, what in ACTIONS.items())
    parser.add_argument("action", nargs="?", help=told)
    parser.read(words)
    raise UsageError(f"agentrl config: what of it? Write one of {', '.join(ACTIONS)} behind it.")
