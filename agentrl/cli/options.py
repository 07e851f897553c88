"""`--env.KEY VALUE` → options of an environment, or of a toolbox.

In    flags that look like settings, with their text
Out   keyword arguments
Not   a check of their names: the environment's own signature says
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.cli.parser import Parser, split_settings
from agentrl.errors import UsageError

PREFIX = "--env."


def parser_of(action: str, summary: str, examples: Sequence[str]) -> Parser:
    """A parser for a look at one environment."""
    parser = Parser(f"envs {action}", summary, examples)
    parser.add_argument("env", help="name, module:Class or path/file.py:Class")
    parser.add_argument("--env.KEY", dest="option", metavar="VALUE", help="an option of it")
    return parser


def split_options(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The environment's options, and the other words."""
    flags, rest = split_settings(words, {}, ())
    return options_of(flags), rest


def options_of(
    flags: Sequence[tuple[str, str]],
    prefixes: Sequence[str] = (PREFIX,),
    instead: str = f"Write {PREFIX}KEY VALUE.",
) -> dict[str, Any]:
    """Keyword arguments that the flags give.

    Args:
        flags: Each with its text.
        prefixes: What a flag may begin with.
        instead: What is said of a flag that does not.

    Raises:
        UsageError: a flag is no option here.
    """
    from agentrl.settings import scalar

    found: dict[str, Any] = {}
    for flag, text in flags:
        prefix = next((p for p in prefixes if flag.startswith(p)), "")
        name = flag.removeprefix(prefix).replace("-", "_")
        if not prefix or not name.isidentifier():
            raise UsageError(f"{flag}: not an option here. {instead}")
        found[name] = scalar(text, f"{flag} {text}")
    return found


def defaults_of(cls: type) -> Mapping[str, Any]:
    """Options of a class with their defaults; None also where there is none."""
    found = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        default = None if parameter.default is parameter.empty else parameter.default
        plain = isinstance(default, bool | int | float | str | None)
        found[name] = default if plain else str(default)
    return found
