"""Words → settings, for the commands that have them all.

In    the words behind `train` or `eval`
Out   settings with their origins; the help text that lists every one
Not   the options that are no settings: each command adds its own
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic

from agentrl import settings, tomlfile
from agentrl.cli.parser import Parser
from agentrl.settings import Flag, Model, Resolved, Setting
from agentrl.tomlfile import TomlFile, literal

SHARED = ("env", "rollout")
"""Sections that are taken from the run whose policy plays, unless flags say otherwise."""


@dataclass(frozen=True)
class Family(Generic[Model]):
    """The settings of one command."""

    model: type[Model]
    short: Mapping[str, str]
    """Short flags, each to its setting."""

    def switches(self) -> set[str]:
        """Settings that are true or false: their flag may stand alone."""
        return {s.name for s in settings.settings(self.model) if isinstance(s.default, bool)}

    def resolve(self, files: Iterable[TomlFile], flags: Sequence[Flag]) -> Resolved[Model]:
        """Defaults, then files, then flags."""
        given = [one for file in files for one in settings.from_file(self.model, file)]
        given += settings.from_flags(self.model, flags, self.short)
        return settings.resolve(self.model, given)

    def help(self) -> str:
        """Every setting: short flags first, then the rest by their dotted names."""
        found = {s.name: s for s in settings.settings(self.model)}
        short = [(flag, found[name]) for flag, name in self.short.items()]
        known = set(self.short.values())
        rest = [(f"--{name}", s) for name, s in found.items() if name not in known]
        lines = [f"  {flag:<33}{_told(setting)}" for flag, setting in [*short, *rest]]
        if "env" in self.model.model_fields:
            lines.append(f"  {'--env.KEY':<33}An option of the environment.")
        return "\n".join(["settings, each with a value behind it [default]:", *lines])

    def last(self, flags: Sequence[Flag], name: str) -> str:
        """The text that a setting was given last; empty where it was not."""
        given = (text for flag, text in reversed(flags) if self.short.get(flag, flag[2:]) == name)
        return next(given, "")


def _told(setting: Setting) -> str:
    choices = f" {' | '.join(setting.choices)}." if setting.choices else ""
    default = setting.default if isinstance(setting.default, str) else literal(setting.default)
    return f"{setting.description}{choices}" + (f" [{default}]" if default else "")


def takes_files(parser: Parser) -> None:
    """Let a command read settings from files."""
    parser.add_argument(
        "--config", action="append", default=[], help="a TOML file, or the name of a shipped one"
    )


def files_of(texts: Iterable[str], run: str, shared: Sequence[str] = SHARED) -> list[TomlFile]:
    """The files of --config, behind what the run was trained with whose policy plays."""
    files = [config_file(text) for text in texts]
    return [as_trained(run, shared), *files] if run else files


def config_file(text: str) -> TomlFile:
    """The file of `--config TEXT`, under the name that messages use."""
    path = settings.config_path(text, settings.config_folders())
    here = Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return tomlfile.read(path, str(shown))


def as_trained(name: str, shared: Sequence[str] = SHARED) -> TomlFile:
    """What a run was trained in and how it was sampled: played otherwise, it would differ."""
    from agentrl.record import locate, parted

    file = tomlfile.read(locate(parted(name)[0]).path / "config.toml")
    return replace(file, values={k: v for k, v in file.values.items() if k in shared})
