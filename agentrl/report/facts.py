"""A folder of a run or an evaluation → Facts: all that a report says of it, once, unchanging.

In    a folder as docs/files.md describes it, whole or not
Out   Facts; what is missing or cannot be read is a line in them
Not   a judgement (verdict.py, health.py), nor whole files in memory
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agentrl import header, record
from agentrl.errors import UsageError
from agentrl.record import RunFolder
from agentrl.report.episodes import Played, read
from agentrl.report.lines import Lost, number, objects
from agentrl.report.tools import Calls
from agentrl.report.transcripts import Told, choose
from agentrl.tomlfile import flat

Kind = Literal["train", "sft", "evaluation"]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Facts:
    """What one folder says."""

    name: str
    path: Path
    kind: Kind
    run: Mapping[str, Any]
    """run.json, or eval.json."""
    settings: Mapping[str, Any]
    """Dotted name to value; empty where config.toml cannot be read."""
    origin: Mapping[str, str]
    rows: tuple[Row, ...]
    """Of metrics.jsonl, one a step, in order."""
    heldout: tuple[Played, ...]
    """One each time the held-out tasks were attempted, in order."""
    steps: tuple[Played, ...]
    """One each recorded step of training, in order; of an evaluation its episodes."""
    told: tuple[Told, ...]
    """Transcripts to show."""
    missing: tuple[str, ...]
    """What is not there or cannot be read, a sentence each."""

    @property
    def status(self) -> str:
        """How it ended, or that it did not."""
        if self.kind == "evaluation":
            return "done" if (self.path / header.SUMMARY).is_file() else "not finished"
        return str(self.run.get("status"))

    @property
    def done(self) -> int:
        """Steps that were done."""
        return int(self.rows[-1]["step"]) if self.rows else 0

    @property
    def asked(self) -> int | None:
        """Steps that were asked for."""
        steps = number(self.settings.get("train.steps"))
        return None if steps is None else int(steps)

    @property
    def calls(self) -> Calls:
        """All calls of tools: of training where there was any, else of the evaluation."""
        found: Calls = Counter()
        for played in self.steps or self.heldout[-1:]:
            found.update(played.calls)
        return found


def facts_of(text: str, runs: str = "runs") -> Facts:
    """Read a folder.

    Args:
        text: A folder, or the name of a run under `runs`.
        runs: Folder of all runs.

    Raises:
        UsageError: there is no run and no evaluation, or nobody can say what it is.
    """
    path = Path(text)
    suite = header.names_in(path)
    if suite is not None:
        names = ", ".join(str(path / name) for name in suite)
        raise UsageError(f"{text}: a suite of evaluations. Name one of them, or several: {names}.")
    if (path / header.NAME).is_file():
        return _of_evaluation(path)
    return _of_run(record.locate(text, runs))


def labelled(every: Sequence[Facts]) -> list[str]:
    """A name for each that no other has."""
    names = [facts.path.resolve().name for facts in every]
    if len(set(names)) < len(names):
        names = ["/".join(facts.path.resolve().parts[-2:]) for facts in every]
    counted = Counter(names)
    return [f"{n} ({i})" if counted[n] > 1 else n for i, n in enumerate(names, 1)]


def _of_run(folder: RunFolder) -> Facts:
    run, lost, missing = folder.read_run(), Lost(), []
    kind: Kind = "sft" if run.get("kind") == "sft" else "train"
    if not folder.metrics.is_file():
        missing.append("metrics.jsonl is missing: no curve can be drawn, and nothing is told of.")
    rows = [row for row in objects(folder.metrics, lost) if number(row.get("step")) is not None]
    heldout = _heldout(folder.path / "heldout", lost)
    steps, last = _groups(folder.path / "groups", lost)
    if kind == "train" and rows and not steps:
        missing.append("groups/ is missing: ranks, stops and tools of training cannot be told.")
    settings, origin = _settings(folder.path, missing)
    first = heldout[0] if len(heldout) > 1 else None
    return Facts(
        name=folder.path.resolve().name,
        path=folder.path,
        kind=kind,
        run=run,
        settings=settings,
        origin=origin,
        rows=tuple(sorted(rows, key=lambda row: float(row["step"]))),
        heldout=tuple(heldout),
        steps=tuple(steps),
        told=choose(heldout[-1] if heldout else last, first),
        missing=(*missing, *_lost(lost)),
    )


def _of_evaluation(path: Path) -> Facts:
    lost, missing = Lost(), list[str]()
    played = read(path / header.EPISODES, lost)
    settings, origin = _settings(path, missing)
    return Facts(
        name=path.resolve().name,
        path=path,
        kind="evaluation",
        run=header.read(path),
        settings=settings,
        origin=origin,
        rows=(),
        heldout=(played,) if played.episodes else (),
        steps=(),
        told=choose(played, None),
        missing=(*missing, *_lost(lost)),
    )


def _heldout(folder: Path, lost: Lost) -> list[Played]:
    """Every evaluation; of all but the first and the last only the counts are kept."""
    files = _files(folder)
    found = []
    for at, (step, path) in enumerate(files):
        played = read(path, lost, step=step, remember=at in (0, len(files) - 1))
        if played.episodes:
            found.append(played)
    return found


def _groups(folder: Path, lost: Lost) -> tuple[list[Played], Played | None]:
    """Every step, counted; the last one also with the places of its lines."""
    files, found, last = _files(folder), list[Played](), None
    for step, path in files:
        is_last = path == files[-1][1]
        played = read(path, lost, step=step, chosen=True, remember=is_last)
        last = played if is_last and played.episodes else last
        played.scores = played.scores if is_last else {}
        if played.episodes:
            found.append(played)
    return found, last


def _files(folder: Path) -> list[tuple[int, Path]]:
    found = [(int(p.stem), p) for p in folder.glob("*.jsonl") if p.stem.isdecimal()]
    return sorted(found)


def _settings(path: Path, missing: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    settings: dict[str, Any] = {}
    origin: dict[str, str] = {}
    try:
        settings = flat(tomllib.loads((path / record.CONFIG).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        missing.append(f"config.toml: {type(error).__name__}, so settings are unknown.")
    try:
        known = json.loads((path / record.ORIGIN).read_text(encoding="utf-8"))
        origin = {str(name): str(value) for name, value in known.items()}
    except (OSError, ValueError, AttributeError):
        pass  # evaluations and sft have none
    return settings, origin


def _lost(lost: Lost) -> list[str]:
    return [
        f"{name}: {count} {'line' if count == 1 else 'lines'} could not be read and "
        f"{'is' if count == 1 else 'are'} left out."
        for name, count in sorted(lost.items())
    ]
