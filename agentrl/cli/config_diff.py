"""`agentrl config diff`: settings of two files or runs that are not the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel

from agentrl.cli import named
from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.errors import UsageError
from agentrl.settings import OPTIONS, settings
from agentrl.tomlfile import literal
from agentrl.visible import visible

EXAMPLES = ("runs/tool_math-001 runs/tool_math-002", "tool_math mine.toml --json")


def run(words: Sequence[str]) -> int:
    """Show what differs."""
    parser = Parser("config diff", "show what differs between two files or runs", EXAMPLES)
    for name in ("a", "b"):
        parser.add_argument(name, metavar=name.upper(), help="a file, a shipped name, or a run")
    named.add_command(parser)
    args = parser.read(words)
    first, second = (named.find(word, args.command) for word in (args.a, args.b))
    if first.command != second.command:
        raise UsageError(
            f"{args.a} and {args.b}: settings of `agentrl {first.command}` and of "
            f"`agentrl {second.command}`. Compare like with like, or read both with --for."
        )
    before, after = first.resolved(), second.resolved()
    rows = list(differences(before.config, after.config))
    with output(args.json) as out:
        out.document = [
            {
                "name": name,
                "a": old,
                "b": new,
                "a_origin": before.origin.get(name),
                "b_origin": after.origin.get(name),
            }
            for name, old, new in rows
        ]
        for name, old, new in rows:
            ends = (
                f"{_told(v)} ({o.get(name, 'not given')})"
                for v, o in ((old, before.origin), (new, after.origin))
            )
            out.say(visible(f"{name}  {' -> '.join(ends)}"))
        if not rows and not args.quiet:
            out.say("no setting differs")
    return 0


def differences(a: BaseModel, b: BaseModel) -> Iterator[tuple[str, Any, Any]]:
    """Name of each setting with two values, and both; None where an option is not given."""
    names = {one.name: None for model in (type(a), type(b)) for one in settings(model)}
    for name in names:
        values = [_value(config, name) for config in (a, b)]
        if values[0] != values[1]:
            yield (name, *values)
    options = [_value(config, OPTIONS) or {} for config in (a, b)]
    for key in sorted({*options[0], *options[1]}):
        old, new = (one.get(key) for one in options)
        if old != new or type(old) is not type(new):
            yield f"{OPTIONS}.{key}", old, new


def _value(config: BaseModel, name: str) -> Any:
    found: Any = config
    for key in name.split("."):
        found = getattr(found, key, None)
    return found


def _told(value: Any) -> str:
    return "nothing" if value is None else literal(value)
