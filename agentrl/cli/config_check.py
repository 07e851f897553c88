"""`agentrl config check`: every mistake in files of settings, line by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentrl import settings
from agentrl.adapted import ADAPTERS
from agentrl.cli import named
from agentrl.cli.entry import DONE, WRONG
from agentrl.cli.named import SUITE, Named
from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.config import EvalConfig
from agentrl.errors import UsageError
from agentrl.sections import EnvSection
from agentrl.settings import OPTIONS
from agentrl.tomlfile import TomlFile, literal
from agentrl.visible import visible

EXAMPLES = ("mine.toml", "tool_math evals/suite.toml --json")


def run(words: Sequence[str]) -> int:
    """Check files, each alone."""
    parser = Parser("config check", "look for mistakes in files of settings", EXAMPLES)
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file, a shipped name, or a run")
    named.add_command(parser)
    args = parser.read(words)
    with output(args.json) as out:
        found = {word: checked(word, args.command) for word in args.files}
        out.document = [
            {"file": word, "command": command, "problems": problems}
            for word, (command, problems) in found.items()
        ]
        for word, (command, problems) in found.items():
            for problem in problems:
                out.say(visible(" ".join(problem.split())))
            if not problems and not args.quiet:
                out.say(visible(f"{word}: right, for `agentrl {command}`."))
    return WRONG if any(problems for _, problems in found.values()) else DONE


def checked(word: str, command: str | None = None) -> tuple[str | None, list[str]]:
    """The command that a file is for, and what is wrong with it; nothing if it is right."""
    if command is not None:
        named.family_for(command)
    try:
        found = named.find(word, command)
    except UsageError as error:
        return command, [str(error)]
    if SUITE in found.file.values and found.command == "eval":
        return "eval", _suite_problems(found)
    wrong = settings.problems(found.family.model, found.file)
    return found.command, wrong or _environment_problems(found)


def _environment_problems(found: Named) -> list[str]:
    """Whether there is such an environment, with such options.

    What adapters play is not loaded: its package may be where the command will run, and not here.
    """
    resolved = found.resolved()
    env = getattr(resolved.config, "env", None)
    if env is None:
        return []
    # Here, not above: most mistakes are found without an environment's own imports.
    from agentrl.mixture import kinds_of, weights_of

    try:
        if not any(name.partition("/")[0] in ADAPTERS for name in weights_of(env.name)):
            kinds_of(env.name, env.options)
    except UsageError as error:
        return [_in_file(str(error), env, resolved.origin, found.file.shown)]
    return []


def _in_file(text: str, env: EnvSection, origin: Mapping[str, str], shown: str) -> str:
    """A message about --env or --env.KEY, as one about a line."""
    flag, _, said = text.partition(": ")
    option = f"{OPTIONS}.{flag.removeprefix('--env.')}"
    name = option if option in origin else "env.name"
    what = option if name == option else f"env.name = {literal(env.name)}"
    return f"{shown if origin[name] == 'default' else origin[name]}: {what}: {said}"


def _suite_problems(found: Named) -> list[str]:
    """What is wrong above the entries of a suite, or else with the first wrong entry."""
    file = found.file
    shared = replace(file, values={k: v for k, v in file.values.items() if k != SUITE})
    wrong = settings.problems(EvalConfig, shared)
    if wrong:
        return wrong
    # Here, not above: it loads what plays.
    from agentrl.suite import entries

    def resolve(files: Sequence[TomlFile]) -> EvalConfig:
        config = found.family.resolve(files, []).config
        assert isinstance(config, EvalConfig)
        return config

    try:
        entries(file, "", resolve)
    except UsageError as error:
        return [str(error)]
    return []
