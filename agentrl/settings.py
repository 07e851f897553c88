"""Where settings come from: defaults, then TOML files, then flags, the later winning.

In    a model of settings (config.py), files, flags with their text
Out   Resolved: the checked settings, and the origin of every one
Not   command lines: cli/ splits them; nor files that are no settings
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from agentrl import tomlfile
from agentrl.errors import UsageError, suggestion
from agentrl.misfit import retell
from agentrl.tomlfile import TomlFile
from agentrl.tomlfile import dump_toml as dump_toml

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Model = TypeVar("Model", bound=BaseModel)
Flag = tuple[str, str]
"""A flag as it was written, and the text behind it."""

OPTIONS = "env.options"
"""The one table whose keys are not ours: keyword arguments of the environment."""

_BOTH = {
    "--env": "env.name",
    "--model": "model.name",
    "--engine": "engine.name",
    "--url": "engine.urls",
}
TRAIN_FLAGS = _BOTH | {
    "--n": "select.n",
    "--m": "select.m",
    "--rule": "select.rule",
    "--within": "select.within",
    "--token-budget": "select.token_budget",
    "--loss": "update.loss",
    "--memory": "update.memory",
    "--lr": "update.lr",
    "--steps": "train.steps",
    "--tasks-per-step": "train.tasks_per_step",
    "--max-staleness": "train.max_staleness",
    "--skip-flat": "train.skip_flat",
    "--pilot": "train.pilot",
    "--seed": "train.seed",
    "--eval-every": "train.eval_every",
    "--save-every": "train.save_every",
    "--name": "run.name",
    "--out": "run.out",
    "--progress": "run.progress",
}
EVAL_FLAGS = _BOTH | {
    "--run": "eval.run",
    "--base-url": "endpoint.base_url",
    "--api-key-env": "endpoint.api_key_env",
    "--template": "template",
    "--split": "eval.split",
    "--tasks": "eval.tasks",
    "--k": "eval.k",
    "--seed": "eval.seed",
    "--out": "out",
}
ROLLOUT_FLAGS = _BOTH | {
    "--run": "collect.run",
    "--split": "collect.split",
    "--tasks": "collect.tasks",
    "--n": "collect.n",
    "--seed": "collect.seed",
    "--out": "out",
}
SFT_FLAGS = {
    "--model": "model.name",
    "--keep": "sft.keep",
    "--epochs": "sft.epochs",
    "--batch": "sft.batch",
    "--heldout": "sft.heldout",
    "--lr": "update.lr",
    "--memory": "update.memory",
    "--seed": "sft.seed",
    "--out": "out",
}
"""Short flags; every other setting is `--section.key`."""


@dataclass(frozen=True, slots=True)
class Given:
    """One setting that somebody gave."""

    name: str
    """Dotted: `select.m`."""
    value: Any
    origin: str
    """`--m` or `configs/mine.toml:3`."""
    where: str
    """How a message begins: `--m 80` or `configs/mine.toml:3: select.m = 80`."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting that exists."""

    name: str
    default: Any
    description: str
    choices: tuple[str, ...] = ()
    """The words that may be given; empty where it is no such choice."""


@dataclass(frozen=True)
class Resolved(Generic[Model]):
    """Settings that fit together, and where each came from."""

    config: Model
    origin: Mapping[str, str]
    """Dotted name to `default`, `file:line` or the flag."""


def resolve(model: type[Model], given: Iterable[Given]) -> Resolved[Model]:
    """Put what was given over the defaults and check the whole; the last one wins."""
    winners: dict[str, Given] = {}
    for one in given:
        winners.pop(one.name, None)
        winners[one.name] = one
    try:
        config = model.model_validate(_nested(winners.values()))
    except ValidationError as error:
        wheres = {one.name: one.where for one in winners.values()}
        described = {setting.name: setting.description for setting in settings(model)}
        raise UsageError(retell(error.errors()[0], wheres, described)) from error
    origin = {setting.name: "default" for setting in settings(model)}
    return Resolved(config, origin | {one.name: one.origin for one in winners.values()})


def settings(model: type[BaseModel], above: str = "") -> Iterator[Setting]:
    """Every setting of a model, in its order; the environment's own options are not ours."""
    for key, field in model.model_fields.items():
        name = above + key
        section = _section(field)
        if section is not None:
            yield from settings(section, f"{name}.")
        elif name != OPTIONS:
            yield Setting(name, field.default, field.description or "", _choices(field))


def from_file(model: type[BaseModel], file: TomlFile) -> list[Given]:
    """What a TOML file gives; what is no setting is refused with its line."""
    return list(_from_table(model, file.values, file, (), _refuse))


def problems(model: type[BaseModel], file: TomlFile) -> list[str]:
    """Everything that is wrong with a file taken alone, in the order of its lines.

    Whether settings fit each other is asked only where each is right in itself: what a wrong one
    was meant to be, nobody knows.
    """
    found: list[str] = []
    given = list(_from_table(model, file.values, file, (), found.append))
    all_known = not found
    described = {setting.name: setting.description for setting in settings(model)}
    for error in _misfits(model, given):
        of_one = any(name in described for name in accumulate(error["loc"], "{}.{}".format))
        if of_one or all_known:
            found.append(retell(error, _culprit_last(given, error), described))
    return sorted(found, key=lambda text: _line_of(text, file.shown))


def _culprit_last(given: Iterable[Given], error: ErrorDetails) -> dict[str, str]:
    """How each setting was written; last the one that the message names first.

    Of flags the last is to blame, but the order of lines in a file means nothing.
    """
    key = str(error.get("ctx", {}).get("error", "")).partition(":")[0]
    told = sorted(given, key=lambda one: one.name.rpartition(".")[2] == key)
    return {one.name: one.where for one in told}


def _misfits(model: type[BaseModel], given: Iterable[Given]) -> list[ErrorDetails]:
    try:
        model.model_validate(_nested(given))
    except ValidationError as error:
        return error.errors()
    return []


def _line_of(text: str, shown: str) -> int:
    number = text.removeprefix(f"{shown}:").partition(":")[0]
    return int(number) if number.isdecimal() else 0


def from_flags(
    model: type[BaseModel], flags: Sequence[Flag], short: Mapping[str, str]
) -> list[Given]:
    """What flags give, in their order."""
    found = {setting.name: setting for setting in settings(model)}
    given = [_from_flag(flag, text, short, set(found)) for flag, text in flags]
    lists = {name for name, setting in found.items() if isinstance(setting.default, tuple)}
    return [_gathered(one, given) if one.name in lists else one for one in given]


def config_path(text: str, folders: Iterable[Path]) -> Path:
    """The file that `--config TEXT` means: a path, or a name in the first folder there is."""
    if "/" in text or text.endswith(".toml"):
        return Path(text)
    names = {path.stem: path for folder in folders for path in sorted(folder.glob("*.toml"))}
    if text not in names:
        hint = suggestion(text, names, f"Known: {', '.join(sorted(names)) or 'none'}.")
        raise UsageError(f"--config {text}: no such configuration. {hint} A path ends in .toml.")
    return names[text]


def config_folders() -> list[Path]:
    """Where named configurations lie: in a wheel inside the package, in a checkout beside it."""
    package = Path(__file__).parent
    return [f for f in (package / "_configs", package.parent / "configs") if f.is_dir()][:1]


def _refuse(text: str) -> NoReturn:
    raise UsageError(text)


def _from_table(
    model: type[BaseModel],
    table: Mapping[str, Any],
    file: TomlFile,
    above: tuple[str, ...],
    refuse: Callable[[str], object],
) -> Iterator[Given]:
    """Settings of a table and of those in it; what is none is told to `refuse` and left out."""
    for key, value in table.items():
        path = (*above, key)
        field = model.model_fields.get(key)
        section = _section(field) if field else None
        is_option = field is None and "options" in model.model_fields
        is_table = bool(section) or ".".join(path) == OPTIONS
        if field is None and not is_option:
            refuse(_unknown_key(file.where(path), key, value, model, above))
        elif is_table and not isinstance(value, dict):
            refuse(
                f"{file.where(path)}: {key} is a section. Write [{'.'.join(path)}], "
                "and its settings in the lines below."
            )
        elif section:
            yield from _from_table(section, value, file, path, refuse)
        elif is_option:
            yield _from_line(file, path, f"{OPTIONS}.{key}", value)
        elif ".".join(path) == OPTIONS:
            for option, inside in value.items():
                yield _from_line(file, (*path, option), f"{OPTIONS}.{option}", inside)
        else:
            yield _from_line(file, path, ".".join(path), value, field)


def _from_line(
    file: TomlFile, path: tuple[str, ...], name: str, value: Any, field: FieldInfo | None = None
) -> Given:
    where, text = file.where(path), tomlfile.literal(value)
    counts = field is not None and type(field.default) in (int, float)
    if counts and isinstance(value, bool):
        value = text  # as a number it would be taken for 1 or 0
    return Given(name, value, where, f"{where}: {'.'.join(path)} = {text}")


def _unknown_key(
    where: str, key: str, value: Any, model: type[BaseModel], above: tuple[str, ...]
) -> str:
    names = {".".join((*above, name)): name for name in model.model_fields}
    written = ".".join((*above, key))
    brackets = isinstance(value, dict)
    if brackets:
        names = {f"[{name}]": name for name in names}
        written = f"[{written}]"
    known = f"Known: {', '.join(names)}."
    return f"{where}: {written} is not a setting. {suggestion(written, names, known)}"


def _from_flag(flag: str, text: str, short: Mapping[str, str], known: set[str]) -> Given:
    name = short.get(flag) or _dotted(flag.removeprefix("--").replace("-", "_"), known)
    if name is None:
        spelled = [f"--{name}" for name in sorted(known)]
        hint = suggestion(flag, [*spelled, *short], "`agentrl train --help` lists all.")
        raise UsageError(f"{flag}: not a setting. {hint}")
    where = f"{flag} {text}" if text else f"{flag} ''"
    value = scalar(text, where) if name.startswith(f"{OPTIONS}.") else text
    return Given(name, value, flag, where)


def _gathered(one: Given, given: Sequence[Given]) -> Given:
    """A flag of a list with the values of all its flags: each gives one, without text none."""
    same = [other for other in given if other.name == one.name]
    where = " ".join(other.where for other in same)
    values = tuple(other.value for other in same if other.value)
    return Given(one.name, values, one.origin, where)


def _dotted(name: str, known: set[str]) -> str | None:
    """The setting of that name, or the environment's option of that name."""
    if name in known:
        return name
    section, _, key = name.removeprefix(f"{OPTIONS}.").rpartition(".")
    is_option = name.startswith("env.") and section in ("", "env") and key.isidentifier()
    return f"{OPTIONS}.{key}" if is_option and key != "options" else None


def scalar(text: str, where: str) -> Any:
    """A number, true, false or quoted text as JSON writes them; anything else is itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if value is None:
        raise UsageError(f"{where}: nothing can be set to null. Leave the option out.")
    return text if isinstance(value, list | dict) else value


def _section(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _choices(field: FieldInfo) -> tuple[str, ...]:
    return get_args(field.annotation) if get_origin(field.annotation) is Literal else ()


def _nested(given: Iterable[Given]) -> dict[str, Any]:
    """Dotted names as nested tables."""
    root: dict[str, Any] = {}
    for one in given:
        *tables, key = one.name.split(".", one.name.startswith(f"{OPTIONS}.") + 1)
        inner = root
        for table in tables:
            inner = inner.setdefault(table, {})
        inner[key] = one.value
    return root
