"""`agentrl config schema`: what editors complete and check files of settings with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from agentrl.cli import named
from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.config import EvalSection
from agentrl.sections import EnvSection, RolloutSection

EXAMPLES = ("> .agentrl.schema.json", "--for eval")
DIALECT = "http://json-schema.org/draft-07/schema#"
"""The one that editors of TOML know."""


def run(words: Sequence[str]) -> int:
    """Print the schema."""
    parser = Parser("config schema", "print a JSON schema of files of settings", EXAMPLES)
    named.add_command(parser)
    args = parser.read(words)
    command = args.command or "train"
    found = schema(named.family_for(command).model, command)
    with output(args.json) as out:
        out.document = found
        out.say(json.dumps(found, indent=2, ensure_ascii=False))
    return 0


def schema(model: type[BaseModel], command: str) -> dict[str, Any]:
    """The schema of the files that a command takes.

    What settings mean together is not in it: `agentrl config check` knows that.
    """
    found: dict[str, Any] = _untitled(model.model_json_schema())
    defined = found.get("$defs", {})
    if EnvSection.__name__ in defined:  # its options may stand beside its name
        defined[EnvSection.__name__]["additionalProperties"] = True
    if command == "eval":
        found["properties"][named.SUITE] = _suite()
    return {"$schema": DIALECT, "title": f"Settings of `agentrl {command}`", **found}


def _suite() -> dict[str, Any]:
    """The entries of a suite, each of which may have some sections of its own."""
    own = {"env": EnvSection, "rollout": RolloutSection, "eval": EvalSection}
    sections = {name: {"$ref": f"#/$defs/{kind.__name__}"} for name, kind in own.items()}
    return {
        "description": "Environments that are measured in one go, with --suite.",
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string"}, **sections},
            "required": ["env"],
            "additionalProperties": False,
        },
    }


def _untitled(node: Any) -> Any:
    """Without the titles that only repeat names; a setting may be called title."""
    if isinstance(node, dict):
        kept = {k: v for k, v in node.items() if k != "title" or not isinstance(v, str)}
        return {key: _untitled(value) for key, value in kept.items()}
    return [_untitled(inner) for inner in node] if isinstance(node, list) else node
