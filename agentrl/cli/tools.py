"""`agentrl tools`: what environments can hand to a policy, and a call of it by hand.

In    a toolbox by name, `module:Class` or `path/file.py:Class`, with `.tool` behind it for one
Out   a list; what a policy is told; what a policy would read
Not   the tools that an environment defines itself: those need an episode of it
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentrl.cli.entry import DONE, FAILED, WRONG
from agentrl.cli.options import options_of
from agentrl.cli.output import Output, output
from agentrl.cli.parser import Parser, split_settings
from agentrl.errors import EnvironmentFault, UsageError, blame, suggestion
from agentrl.visible import visible

if TYPE_CHECKING:
    from agentrl.message import ToolOutcome
    from agentrl.toolbox import Toolbox
    from agentrl.tooling import ToolSpec

EXAMPLES = (
    'call calculator "expression=2^10 - 1/3"',
    "show search --json",
)
ACTIONS = ("list", "show", "call")
PREFIX = "--tool."

_EXIT = {"ok": DONE, "bad_arguments": WRONG, "unknown_tool": WRONG}


def run(words: Sequence[str]) -> int:
    """List the toolboxes, show one, or call one of its tools."""
    flags, rest = split_settings(words, {}, ())
    # Options first: argparse takes no arguments behind one that stands between them.
    args = _parser().read(sorted(rest, key=lambda word: not word.startswith("-")))
    if args.action not in ACTIONS:
        hint = suggestion(args.action, ACTIONS, f"Known: {', '.join(ACTIONS)}.")
        raise UsageError(f"agentrl tools {args.action}: no such action. {hint}")
    if args.action != "list" and args.tool is None:
        raise UsageError(
            f"agentrl tools {args.action}: which? Name a tool; `agentrl tools list` lists all."
        )
    _refuse_unused(args)
    options = options_of(flags, (PREFIX,), f"A toolbox's are {PREFIX}NAME VALUE.")
    with output(args.json) as out:
        if args.action == "list":
            return _list(out)
        if args.action == "show":
            return _show(args.tool, options, out)
        return _call(args.tool, args.arguments, options, out)


def _parser() -> Parser:
    parser = Parser("tools", "list, show and call the tools for environments", EXAMPLES)
    parser.add_argument("action", nargs="?", default="list", help="list, show or call [list]")
    parser.add_argument(
        "tool",
        nargs="?",
        help="a toolbox, or BOX.TOOL: calculator, search.search, file.py:Box.tool",
    )
    parser.add_argument(
        "arguments", nargs="*", help="of a call: key=value, or key=@file for what is in a file"
    )
    parser.add_argument("--tool.OPTION", dest="option", metavar="VALUE", help="of the toolbox")
    return parser


def _refuse_unused(args: argparse.Namespace) -> None:
    unused = {"list": [args.tool] if args.tool else [], "show": args.arguments, "call": []}
    if unused[args.action]:
        raise UsageError(
            f"{unused[args.action][0]}: `agentrl tools {args.action}` takes no such argument. "
            "Leave it out."
        )


def split(text: str) -> tuple[str, str]:
    """The toolbox and the tool of a text; no tool where only the box is named."""
    place, colon, last = text.rpartition(":")
    if not colon and text.endswith(".py"):
        return text, ""
    box, _, tool = last.partition(".")
    return f"{place}{colon}{box}", tool


def _named(text: str) -> tuple[str, str]:
    name, tool = split(text)
    if not name:
        raise UsageError(f"{text}: no toolbox. Write BOX.TOOL; `agentrl tools list` lists all.")
    return name, tool


def _list(out: Output) -> int:
    from agentrl.registry import TOOLBOXES

    lines = TOOLBOXES.first_lines()
    out.document = [{"name": name, "summary": summary} for name, summary in lines.items()]
    width = max(map(len, lines), default=0) + 2
    for name, summary in lines.items():
        out.say(f"{name:<{width}}{summary}")
    return DONE


def _show(text: str, options: Mapping[str, Any], out: Output) -> int:
    from agentrl.registry import TOOLBOXES
    from agentrl.toolbox import Toolbox
    from agentrl.tooling import tools_of

    name, tool = _named(text)
    cls = TOOLBOXES.resolve(name)
    known_before = cls.tools is Toolbox.tools and not options
    specs = tools_of(cls) if known_before else _specs(name, TOOLBOXES.make(name, options))
    shown = [_pick(name, tool, specs)] if tool else list(specs.values())
    summary = (inspect.getdoc(cls) or "").partition("\n")[0]
    parameters = inspect.signature(cls).parameters
    out.document = {
        "name": name,
        "summary": summary,
        "options": {key: _default(parameter) for key, parameter in parameters.items()},
        "tools": [_told(spec) for spec in shown],
    }
    out.say(f"{name}: {summary}")
    for key, parameter in parameters.items():
        out.say(f"  {PREFIX}{key}{_ending(parameter)}")
    for spec in shown:
        _say(name, spec, out)
    return DONE


def _told(spec: ToolSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "timeout": spec.timeout,
        "parallel": spec.parallel,
    }


def _say(box: str, spec: ToolSpec, out: Output) -> None:
    alone = "" if spec.parallel else ", never beside another call"
    out.say(f"\n{box}.{spec.name}   at most {spec.timeout:g} s{alone}")
    for line in spec.description.splitlines():
        out.say(visible(f"  {line}".rstrip()))
    required = spec.parameters.get("required", ())
    for key, schema in spec.parameters.get("properties", {}).items():
        kind = schema.get("type") or " or ".join(
            s.get("type", "?") for s in schema.get("anyOf", ())
        )
        told = [str(kind or "any"), "required" if key in required else ""]
        about = schema.get("description", "")
        line = f"  {key}: {', '.join(word for word in told if word)}. {about}"
        out.say(visible(" ".join(line.split("\n")).rstrip()))


def _default(parameter: inspect.Parameter) -> Any:
    """As JSON shows it; None also where there is none."""
    default = parameter.default
    if default is parameter.empty or isinstance(default, bool | int | float | str | None):
        return None if default is parameter.empty else default
    return str(default)


def _ending(parameter: inspect.Parameter) -> str:
    return " VALUE" if parameter.default is parameter.empty else f" [{parameter.default!r}]"


def _call(text: str, words: Sequence[str], options: Mapping[str, Any], out: Output) -> int:
    from agentrl.cli.argument import arguments_of
    from agentrl.registry import TOOLBOXES

    name, tool = _named(text)
    box = TOOLBOXES.make(name, options)
    spec = _pick(name, tool, _specs(name, box))
    outcome = asyncio.run(_outcome(box, spec.name, arguments_of(words, spec.parameters)))
    out.document = {
        "status": outcome.status,
        "content": outcome.content,
        "seconds": outcome.seconds,
        "reward": outcome.reward,
        "metrics": dict(outcome.metrics),
    }
    if outcome.status == "ok":
        out.say(visible(outcome.content))
    else:
        sys.stderr.write(f"{outcome.status}: {visible(' '.join(outcome.content.split()))}\n")
    return _EXIT.get(outcome.status, FAILED)


def _specs(name: str, box: Toolbox) -> Mapping[str, ToolSpec]:
    with blame(UsageError, f"tool {name}: it does not say which tools it has"):
        return dict(box.tools())


def _pick(name: str, tool: str, specs: Mapping[str, ToolSpec]) -> ToolSpec:
    if tool in specs:
        return specs[tool]
    if not tool and len(specs) == 1:
        return next(iter(specs.values()))
    there = f"There is {', '.join(f'{name}.{known}' for known in specs) or 'none'}."
    if not tool:
        raise UsageError(f"tool {name}: which of its tools? {there}")
    raise UsageError(f"tool {name}.{tool}: no such tool. {suggestion(tool, specs, there)}")


async def _outcome(box: Toolbox, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
    """The call as an episode of one turn makes it: started, bounded, released."""
    from agentrl.env import ToolEnv
    from agentrl.message import AssistantTurn, ToolCall
    from agentrl.task import Task

    class Bench(ToolEnv):
        """A toolbox by itself."""

        def toolboxes(self) -> Sequence[Toolbox]:
            return (box,)

    env = Bench()
    try:
        await env.areset(options={"task": Task("agentrl tools call")})
        await env.astep(AssistantTurn("", (ToolCall(name, arguments),)))
    finally:
        await env.arelease()
    if not env.turns[-1].outcomes:
        raise EnvironmentFault(env.end.problem if env.end else "the call was not run")
    return env.turns[-1].outcomes[0]
