"""A suite: several environments measured in one go, one folder each, one table.

In    a TOML file: settings for all, and a [[suite]] table for each environment
Out   settings of each evaluation; SuiteResult, whose mean counts every environment alike
Not   several policies: one is loaded, and plays them all
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentrl import disk
from agentrl.config import EvalConfig
from agentrl.errors import UsageError
from agentrl.evaluation import Evaluation, evaluate_all
from agentrl.events import Listener
from agentrl.header import SUITE, SUMMARY
from agentrl.interval import Interval
from agentrl.tomlfile import TomlFile

ENTRY = "suite"
"""The tables of a suite's file."""
OWN = ("name", "env", "rollout", "eval")
"""What a [[suite]] table may hold."""


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What was measured."""

    evaluations: Mapping[str, Evaluation]
    """By the name of each entry."""
    path: str | None

    @property
    def accuracy(self) -> Interval | None:
        """Mean of the environments' accuracies; None where one could not be scored."""
        found = [e.measurement.accuracy for e in self.evaluations.values()]
        known = [one for one in found if one is not None]
        return joined(known) if len(known) == len(found) else None

    def as_json(self) -> dict[str, Any]:
        """The document that `agentrl eval --suite FILE --json` prints."""
        each = {name: found.as_json() for name, found in self.evaluations.items()}
        mean = self.accuracy
        return {
            "evaluations": each,
            "accuracy": mean and mean.as_json(),
            "path": self.path,
        }


def joined(parts: Sequence[Interval]) -> Interval:
    """Mean of independent means; how far each may be off adds up by squares."""
    mean = math.fsum(p.mean for p in parts) / len(parts)
    below = math.hypot(*(p.mean - p.low for p in parts)) / len(parts)
    above = math.hypot(*(p.high - p.mean for p in parts)) / len(parts)
    return Interval(mean, mean - below, mean + above)


def entries(
    file: TomlFile, out: str, resolve: Callable[[Sequence[TomlFile]], EvalConfig]
) -> dict[str, EvalConfig]:
    """Settings of each evaluation that a file asks for, by its name.

    Args:
        file: The suite.
        out: Folder of all; empty writes nothing.
        resolve: Settings from files, the later winning.

    Raises:
        UsageError: it is no suite, or two entries have one name.
    """
    tables = file.values.get(ENTRY)
    if not isinstance(tables, list) or not tables:
        raise UsageError(
            f"{file.shown}: no [[{ENTRY}]] in it. Write one for each environment, with "
            'env.name = "..." below it.'
        )
    shared = replace(file, values={k: v for k, v in file.values.items() if k != ENTRY})
    found: dict[str, EvalConfig] = {}
    for number, table in enumerate(tables, 1):
        where = f"{file.shown}: [[{ENTRY}]] number {number}"
        config, name = _entry(where, file, table, shared, resolve)
        if name in found:
            raise UsageError(f"{where}: {name} is there twice. Give one of them another name.")
        folder = str(Path(out) / name) if out else ""
        found[name] = config.model_copy(update={"out": folder})
    return found


def _entry(
    where: str,
    file: TomlFile,
    table: Any,
    shared: TomlFile,
    resolve: Callable[[Sequence[TomlFile]], EvalConfig],
) -> tuple[EvalConfig, str]:
    if not isinstance(table, dict) or not isinstance(table.get("env"), dict):
        raise UsageError(f'{where}: no environment. Write env.name = "..." below it.')
    odd = next((key for key in table if key not in OWN), None)
    if odd is not None:
        raise UsageError(
            f"{where}: {odd} can't differ between environments. "
            f"Write it above all entries: one has only {', '.join(OWN)}."
        )
    own = replace(file, values={k: v for k, v in table.items() if k != "name"})
    config = resolve([shared, own])
    name = str(table.get("name") or _plain(config.env.name))
    if Path(name).name != name or name in (".", ".."):
        raise UsageError(f"{where}: name {name!r} is not one folder. Use letters, digits, _ and -.")
    return config, name


def evaluate_suite(
    configs: Mapping[str, EvalConfig],
    out: str,
    *,
    resume: bool = False,
    command: Sequence[str] = (),
    listeners: Sequence[Listener] = (),
) -> SuiteResult:
    """Measure one policy in all of a suite's environments.

    Raises:
        UsageError: as `evaluate` does, of any of them, before the first is played.
    """
    root = Path(out) if out else None
    if root is not None:
        _begin(root, resume)

    def opened() -> None:
        """Last, so that all it names can be gone on with."""
        if root is not None:
            text = json.dumps({"schema": 1, "names": list(configs)})
            disk.put(root / SUITE, text + "\n")

    found = evaluate_all(
        list(configs.values()),
        resume=resume,
        command=command,
        listeners=listeners,
        opened=opened,
    )
    result = SuiteResult(dict(zip(configs, found, strict=True)), out or None)
    if root is not None:
        each = {name: one.summary() for name, one in result.evaluations.items()}
        text = {"evaluations": each, "accuracy": result.as_json()["accuracy"]}
        disk.put(root / SUMMARY, json.dumps(text, indent=2, ensure_ascii=False) + "\n")
    return result


def _begin(root: Path, resume: bool) -> None:
    if not resume and (root / SUITE).exists():
        raise UsageError(
            f"--out {root}: it holds a suite. Add --resume to go on with it, "
            "or give another folder."
        )
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--out {root}: cannot be written ({error.strerror}). Give a folder that can."
        ) from error


def _plain(env: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in env.rsplit("/", 1)[-1])
