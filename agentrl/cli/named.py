"""A file, the name of a shipped one, or a run → its settings, and the command they are for.

In    a word of somebody's
Out   the file with its lines, the settings it may hold, where a run's own settings came from
Not   whether it is right: settings.py and config_check.py say that
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from agentrl import settings, tomlfile
from agentrl.cli.config import Family, config_file
from agentrl.cli.parser import Parser
from agentrl.config import EvalConfig, TrainConfig
from agentrl.errors import UsageError, suggestion
from agentrl.offline import RolloutConfig, SftConfig, SftRecord
from agentrl.settings import EVAL_FLAGS, ROLLOUT_FLAGS, SFT_FLAGS, TRAIN_FLAGS, Flag, Resolved
from agentrl.tomlfile import TomlFile

FAMILIES: Mapping[str, Family[BaseModel]] = {
    "train": Family(TrainConfig, TRAIN_FLAGS),
    "eval": Family(EvalConfig, EVAL_FLAGS),
    "rollout": Family(RolloutConfig, ROLLOUT_FLAGS),
    "sft": Family(SftConfig, SFT_FLAGS),
}
"""The commands that have settings."""
RECORDED: Mapping[str, Family[BaseModel]] = {**FAMILIES, "sft": Family(SftRecord, SFT_FLAGS)}
"""The same as their folders keep them."""
CONFIG, ORIGIN, SUITE = "config.toml", "origin.json", "suite"


@dataclass(frozen=True)
class Named:
    """Settings that lie somewhere."""

    file: TomlFile
    command: str
    """Which command they are for."""
    family: Family[BaseModel]
    origin: Mapping[str, str] = field(default_factory=dict)
    """What a run noted of where each of its settings came from."""

    def resolved(
        self, files: Sequence[TomlFile] = (), flags: Sequence[Flag] = ()
    ) -> Resolved[BaseModel]:
        """All settings, with what files and flags put over those that lie there."""
        found = self.family.resolve([self.file, *files], flags)
        from_here = f"{self.file.shown}:"
        noted = {k: self.origin.get(k, o) for k, o in found.origin.items() if from_here in o}
        return Resolved(found.config, {**found.origin, **noted})


def add_command(parser: Parser) -> None:
    """The option that says which command is meant."""
    parser.add_argument(
        "--for", dest="command", metavar="COMMAND", help=f"{', '.join(FAMILIES)} [what fits]"
    )


def family_for(command: str) -> Family[BaseModel]:
    """The settings of a command, as somebody wrote it behind --for."""
    if command not in FAMILIES:
        hint = suggestion(command, FAMILIES, f"Known: {', '.join(FAMILIES)}.")
        raise UsageError(f"--for {command}: no command with settings. {hint}")
    return FAMILIES[command]


def find(word: str, command: str | None = None) -> Named:
    """What a word names: a file, a folder that a command wrote, a shipped file, or a run.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    folder = _folder(word)
    file = config_file(word) if folder is None else tomlfile.read(folder / CONFIG)
    command = command or command_of(file)
    family = family_for(command)
    if folder is None:
        return Named(file, command, family)
    return Named(file, command, RECORDED[command], _noted(folder / ORIGIN))


def nothing(command: str) -> Named:
    """Where no file lies: the defaults of a command."""
    return Named(TomlFile("", {}, {}), command, family_for(command))


def command_of(file: TomlFile) -> str:
    """The command whose settings a file has most of; of several the first."""
    names = {command: set(one.model.model_fields) for command, one in RECORDED.items()}
    names["eval"].add(SUITE)
    return max(FAMILIES, key=lambda command: len(names[command] & file.values.keys()))


def _folder(word: str) -> Path | None:
    """The folder with settings that a word names, unless it names a file."""
    shipped = {path.stem for folder in settings.config_folders() for path in folder.glob("*.toml")}
    for path in (Path(word), Path("runs", word)):
        # Of a path that is too long, or behind a closed door, pathlib's own questions raise.
        if os.path.isdir(path) and word not in shipped:
            if os.path.isfile(path / CONFIG):
                return path
            raise UsageError(f"{word}: a folder without {CONFIG}. Name a run, or a file.")
    return None


def _noted(path: Path) -> dict[str, str]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return {str(name): str(origin) for name, origin in found.items()}
    return {}
