"""`agentrl eval`: settings → accuracy on tasks, as a table or as JSON."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from agentrl.cli.config import Family, files_of, takes_files
from agentrl.cli.output import Output, output
from agentrl.cli.parser import Parser, split_settings
from agentrl.cli.table import suite_table, table
from agentrl.config import EvalConfig
from agentrl.errors import UsageError
from agentrl.settings import EVAL_FLAGS, Flag
from agentrl.tomlfile import TomlFile, read

if TYPE_CHECKING:
    from agentrl.events import Listener

EXAMPLES = (
    "--env tool_math --run runs/tool_math-001 --tasks 500 --k 4 --out evals/after",
    "--env shop --base-url http://localhost:8000/v1 --model my-model --json",
)

SETTINGS = "config.toml"
PROGRESS = ("auto", "live", "plain", "json", "off")


def run(words: Sequence[str]) -> int:
    """Measure a policy."""
    family = Family(EvalConfig, EVAL_FLAGS)
    flags, rest = split_settings(words, EVAL_FLAGS, family.switches())
    args = _parser(family).read(rest, EVAL_FLAGS)
    command = ("agentrl", "eval", *words)
    flags, folder = _resumed(family, flags, args)
    with output(args.json) as out:
        if args.suite or (folder is not None and (folder / "suite.json").is_file()):
            _suite(out, family, flags, args, command, folder)
        else:
            _single(out, family, flags, args, command, folder)
    return 0


def _parser(family: Family[EvalConfig]) -> Parser:
    parser = Parser("eval", "measure a policy on tasks that it was not trained on", EXAMPLES)
    parser.usage = "agentrl eval [--env ENV] [--run RUN] [--SETTING VALUE ...] [options]"
    parser.epilog = f"{family.help()}\n\n{parser.epilog}"
    takes_files(parser)
    parser.add_argument(
        "--progress",
        choices=PROGRESS,
        default="auto",
        metavar="HOW",
        help=f"{', '.join(PROGRESS)}: how it is shown, on standard error [auto]",
    )
    parser.add_argument("--suite", help="a TOML file of several environments")
    parser.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="DIR",
        help="go on with the evaluation in DIR, or in --out",
    )
    return parser


def _resumed(
    family: Family[EvalConfig], flags: list[Flag], args: argparse.Namespace
) -> tuple[list[Flag], Path | None]:
    """The folder that is gone on with, as --out too."""
    given = family.last(flags, "out")
    if args.resume is None:
        return flags, None
    folder = args.resume or given
    if not folder:
        raise UsageError("--resume: which evaluation? Write --resume DIR.")
    if given and Path(given) != Path(folder):
        raise UsageError(f"--resume {folder}: it goes on in its own folder. Leave --out out.")
    return [*flags, ("--out", folder)], Path(folder)


def _single(
    out: Output,
    family: Family[EvalConfig],
    flags: Sequence[Flag],
    args: argparse.Namespace,
    command: Sequence[str],
    folder: Path | None,
) -> None:
    run = family.last(flags, "eval.run")
    files = files_of(args.config, run) if folder is None else [_begun(folder)]
    config = family.resolve(files, flags).config
    from agentrl.evaluation import evaluate

    with _showing(args, config.out) as listeners:
        found = evaluate(config, resume=folder is not None, command=command, listeners=listeners)
    out.document = found.as_json()
    out.say(table(out.document))


def _suite(
    out: Output,
    family: Family[EvalConfig],
    flags: Sequence[Flag],
    args: argparse.Namespace,
    command: Sequence[str],
    folder: Path | None,
) -> None:
    root = family.last(flags, "out")
    from agentrl.header import names_in
    from agentrl.suite import entries, evaluate_suite

    names = names_in(folder) if folder is not None else None
    if folder is not None and names is not None:
        rest = [flag for flag in flags if family.short.get(flag[0], flag[0][2:]) != "out"]
        configs = {
            name: family.resolve(
                [_begun(folder / name)], [*rest, ("--out", str(folder / name))]
            ).config
            for name in names
        }
    else:
        files = files_of(args.config, family.last(flags, "eval.run"), ("rollout",))

        def resolve(more: Sequence[TomlFile]) -> EvalConfig:
            return family.resolve([*files, *more], flags).config

        configs = entries(read(Path(args.suite), args.suite), root, resolve)
    with _showing(args, root) as listeners:
        found = evaluate_suite(
            configs, root, resume=folder is not None, command=command, listeners=listeners
        )
    out.document = found.as_json()
    out.say(suite_table(out.document))


def _showing(args: argparse.Namespace, out: str) -> AbstractContextManager[tuple[Listener, ...]]:
    """On standard error: what is on standard output is the result."""
    from agentrl.console import showing

    log = f"logs/ under {out}" if out else ""
    return showing("off" if args.quiet else args.progress, sys.stderr, os.environ, log)


def _begun(folder: Path) -> TomlFile:
    """The settings that an evaluation began with."""
    path = folder / SETTINGS
    if not path.is_file():
        raise UsageError(
            f"--resume {folder}: no evaluation was begun there. Leave --resume out to begin one."
        )
    return read(path)
