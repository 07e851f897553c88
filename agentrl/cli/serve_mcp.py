"""`agentrl mcp`: the tools of an environment or a toolbox, for other agents.

In    an environment or a toolbox by name, `module:Class` or `path/file.py:Class`, and its options
Out   an MCP server on standard input and output, until the client leaves
Not   a score of what the client does
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentrl.cli.entry import DONE
from agentrl.cli.options import options_of
from agentrl.cli.parser import Parser, split_settings
from agentrl.errors import UsageError, blame

if TYPE_CHECKING:
    from agentrl.env import ToolEnv
    from agentrl.task import Task
    from agentrl.toolbox import Toolbox

EXAMPLES = (
    "calculator",
    "tool_math --split test --index 3",
)
PREFIXES = ("--tool.", "--env.")


def run(words: Sequence[str]) -> int:
    """Serve until the client leaves."""
    flags, rest = split_settings(words, {}, ())
    args = _parser().read(rest)
    from agentrl.optional import need

    options = options_of(flags, PREFIXES, "Write --tool.NAME or --env.NAME VALUE.")
    need("mcp", "mcp", "agentrl mcp")
    env, task = _found(args.target, options, args.split, args.index)
    from agentrl.mcp.serve import serve

    asyncio.run(serve(env, task))
    return DONE


def _parser() -> Parser:
    parser = Parser("mcp", "serve the tools of an environment to other agents", EXAMPLES)
    parser.add_argument("target", help="an environment or a toolbox: by name, or file.py:Class")
    parser.add_argument("--split", help="of an environment's task [train]")
    parser.add_argument("--index", type=int, help="of the task in its split [0]")
    parser.add_argument("--tool.OPTION", dest="option", metavar="VALUE", help="of the toolbox")
    parser.add_argument("--env.OPTION", dest="option", metavar="VALUE", help="of the environment")
    return parser


def _found(
    text: str, options: dict[str, Any], split: str | None, index: int | None
) -> tuple[ToolEnv, Task]:
    """What is named, as an environment with a task to play."""
    from agentrl import registry
    from agentrl.task import Task

    if text not in registry.names() and _is_box(text):
        for flag, value in (("--split", split), ("--index", index)):
            if value is not None:
                raise UsageError(
                    f"{flag} {value}: {text} is a toolbox, without tasks. Leave it out."
                )
        return _bench(registry.TOOLBOXES.make(text, options)), Task("Use the tools as you need.")
    env = registry.make(text, **options)
    split, index = split or "train", index or 0
    with blame(UsageError, f"--split {split}: {text} has no such tasks"):
        source = env.task_source(split)
        if not 0 <= index < len(source):
            raise UsageError(
                f"--index {index}: {text} has {len(source)} {split} tasks. Count from 0."
            )
        return env, source[index]


def _is_box(text: str) -> bool:
    """Whether a text names a toolbox; a class in a file may be either."""
    from agentrl import registry

    if ":" not in text and not text.endswith(".py"):
        return text in registry.TOOLBOXES.names()
    try:
        registry.resolve(text)
    except UsageError:
        registry.TOOLBOXES.resolve(text)
        return True
    return False


def _bench(box: Toolbox) -> ToolEnv:
    from agentrl.env import ToolEnv

    class Bench(ToolEnv):
        """A toolbox by itself."""

        def toolboxes(self) -> Sequence[Toolbox]:
            return (box,)

    return Bench()
