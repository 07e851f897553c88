"""`agentrl config show`: every setting as TOML, with where it comes from behind it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from agentrl.cli import named
from agentrl.cli.config import config_file, takes_files
from agentrl.cli.named import FAMILIES, Named
from agentrl.cli.output import output
from agentrl.cli.parser import Parser, split_settings
from agentrl.tomlfile import TomlFile, dump_toml
from agentrl.visible import visible

EXAMPLES = ("--config tool_math --m 16", "runs/tool_math-001")


def run(words: Sequence[str]) -> int:
    """Show what a command would take."""
    short = {flag: name for one in FAMILIES.values() for flag, name in one.short.items()}
    switches = {name for one in FAMILIES.values() for name in one.switches()}
    flags, rest = split_settings(words, short, switches)
    args = _parser().read(rest, short)
    files = [config_file(text) for text in args.config]
    base = _base(args, files)
    found = base.resolved(files, flags)
    with output(args.json) as out:
        config = found.config.model_dump(mode="json")
        out.document = {"command": base.command, "config": config, "origin": dict(found.origin)}
        text = dump_toml(found.config, found.origin).rstrip("\n")
        out.say(visible(f"# settings of `agentrl {base.command}`\n\n{text}"))
    return 0


def _base(args: argparse.Namespace, files: Sequence[TomlFile]) -> Named:
    """What lies below the files and flags that are given."""
    if args.what:
        return named.find(args.what, args.command)
    return named.nothing(args.command or (named.command_of(files[0]) if files else "train"))


def _parser() -> Parser:
    parser = Parser("config show", "show every setting, and where it comes from", EXAMPLES)
    parser.usage = "agentrl config show [RUN|FILE] [--config FILE] [--SETTING VALUE ...] [options]"
    parser.add_argument("what", nargs="?", metavar="RUN|FILE", help="settings that lie there")
    takes_files(parser)
    named.add_command(parser)
    return parser
