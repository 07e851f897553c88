"""`agentrl train`: settings → a run, with lines while it runs and its outcome at the end."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from agentrl.cli.config import Family, config_file, takes_files
from agentrl.cli.output import Output, output
from agentrl.cli.parser import Parser, split_settings
from agentrl.config import TrainConfig
from agentrl.errors import UsageError
from agentrl.settings import TRAIN_FLAGS, Flag, Resolved, settings
from agentrl.tomlfile import TomlFile, literal, read

if TYPE_CHECKING:
    from agentrl.ledger import RunSummary

EXAMPLES = (
    "--env tool_math --n 32 --m 8",
    "--config tool_math --m 16 --env.difficulty hard --name harder",
)


def run(words: Sequence[str]) -> int:
    """Train, or show what would be done."""
    family = Family(TrainConfig, TRAIN_FLAGS)
    flags, rest = split_settings(words, TRAIN_FLAGS, family.switches())
    args = _parser(family).read(rest, TRAIN_FLAGS)
    resolved = _resolve(family, args, flags)
    with output(args.json) as out:
        if args.dry_run:
            _show_plan(resolved, out)
            return 0
        summary = _train(resolved, args.resume, words)
        if summary.status == "followed":
            return 0
        out.document = asdict(summary)
        out.say(_outcome(summary))
    return 130 if summary.status == "stopped" else 0


def _parser(family: Family[TrainConfig]) -> Parser:
    parser = Parser("train", "train a policy in an environment", EXAMPLES)
    parser.usage = "agentrl train [--env ENV] [--n N] [--m M] [--SETTING VALUE ...] [options]"
    parser.epilog = f"{family.help()}\n\n{parser.epilog}"
    takes_files(parser)
    parser.add_argument(
        "--resume", nargs="?", const="", metavar="RUN", help="go on with RUN, or the newest run"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show the settings and write nothing"
    )
    return parser


def _resolve(
    family: Family[TrainConfig], args: argparse.Namespace, flags: list[Flag]
) -> Resolved[TrainConfig]:
    if args.quiet:
        flags = [("--progress", "off"), *flags]
    files = [config_file(text) for text in args.config]
    if args.resume is not None:
        files.insert(0, _config_of_run(family, args.resume, flags))
    return family.resolve(files, flags)


def _config_of_run(family: Family[TrainConfig], run: str, flags: list[Flag]) -> TomlFile:
    """The settings that a run to be resumed was started with: they come before all others."""
    from agentrl.record import locate

    wanted = [flag for flag in flags if family.short.get(flag[0], flag[0][2:]) == "run.out"]
    found = locate(run, family.resolve([], wanted).config.run.out)
    if found.read_run().get("kind") == "sft":
        raise UsageError(
            f"--resume {found.path}: a run of `agentrl sft`, which can't be gone on with. Begin "
            f"with what it learned: `agentrl train --model {found.path}/checkpoints/NNNNNN/policy`."
        )
    return read(found.path / "config.toml")


def _train(resolved: Resolved[TrainConfig], resume: str | None, words: Sequence[str]) -> RunSummary:
    from agentrl.console import showing
    from agentrl.training import train

    run, log = resolved.config.run, "logs/ in the run's folder"
    with showing(run.progress, sys.stdout, os.environ, log) as listeners:
        return train(
            resolved.config,
            resume=resume,
            origin=resolved.origin,
            command=("agentrl", "train", *words),
            listeners=listeners,
        )


def _show_plan(resolved: Resolved[TrainConfig], out: Output) -> None:
    """The card of a run that is not started: what was given, and where."""
    from agentrl.mixture import mixture_of

    config, origin = resolved.config, resolved.origin
    mixture_of(config.env.name, config.env.options)
    out.document = {"config": config.model_dump(mode="json"), "origin": dict(origin)}
    out.say(
        f"{config.env.name} · {config.model.name} · n {config.select.n} -> m {config.select.m}"
        f" · {config.train.tasks_per_step} tasks a step · {config.train.steps} steps"
        f" · would write under {config.run.out}/"
    )
    values = {s.name: s for s in settings(TrainConfig)}
    for name, source in origin.items():
        if source != "default":
            was = f"default {literal(values[name].default)}" if name in values else "option"
            out.say(f"  {name:<28}{literal(_value(config, name)):<20}{source}  ({was})")
    if set(origin.values()) == {"default"}:
        out.say("  every setting has its default")


def _value(config: TrainConfig, name: str) -> object:
    section, key, *option = name.split(".", 2)
    value = getattr(getattr(config, section), key)
    return value[option[0]] if option else value


def _outcome(summary: RunSummary) -> str:
    from agentrl.amounts import duration
    from agentrl.console import interval

    lines = [f"{summary.status} after step {summary.steps} · {summary.path}"]
    if summary.before or summary.after:
        lines.append(f"held-out {interval(summary.before)} -> {interval(summary.after)}")
    spent = [f"{name} {duration(s)}" for name, s in summary.seconds.items()]
    lines.append(f"time {' · '.join(spent)}")
    path = shlex.quote(summary.path)
    nexts = f"agentrl eval --run {path}"
    if summary.status == "stopped":
        nexts = f"agentrl train --resume {path}"
    return "\n".join([*lines, f"next: {nexts}"])
