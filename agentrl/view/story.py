"""A run or an evaluation → Story: what it was, and its chapters.

In    a run's folder, a folder of `agentrl eval`, or a file of episodes
Out   Story: facts for a person, chapters in the order of the run
Not   a page; nor a choice made again: whoever asks for that passes the chooser in
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentrl import disk, header, record
from agentrl.errors import UsageError
from agentrl.record import RunFolder
from agentrl.recorded import recorded_in
from agentrl.view.chapter import Chapter, Chooser, Kind, read_chapter

Choosers = Callable[[RunFolder], Chooser | None]
Facts = tuple[tuple[str, str], ...]
METRICS = ("reward", "heldout", "select/gap", "update/loss", "mismatch/k3")


@dataclass(frozen=True, slots=True)
class Source:
    """Where one chapter comes from."""

    kind: Kind
    step: int | None
    name: str
    files: tuple[Path, ...]

    def read(self, chooser: Chooser | None) -> Chapter:
        """The chapter."""
        return read_chapter(self.kind, self.step, self.name, self.files, chooser)

    def stamp(self) -> tuple[Any, ...]:
        """Changes when a file does."""
        stats = [path.stat() for path in self.files if path.exists()]
        return tuple((s.st_mtime_ns, s.st_size) for s in stats)


@dataclass(frozen=True, slots=True)
class Story:
    """One run or evaluation."""

    name: str
    folder: Path
    """Where a page may be written."""
    status: str
    facts: Facts
    chapters: tuple[Chapter, ...]
    metrics: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Step to its row, shortened to METRICS."""
    weights: tuple[Path, ...] = ()
    """Folders that may hold the tokenizer."""


@dataclass(slots=True)
class Shelf:
    """Chapters that were read, so that a live run is not read anew with every step."""

    choosers: Choosers | None = None
    _read: dict[tuple[Path, ...], tuple[tuple[Any, ...], Chapter]] = field(default_factory=dict)

    def chapter(self, source: Source, chooser: Chooser | None) -> Chapter:
        """The chapter as it is now."""
        stamp, known = source.stamp(), self._read.get(source.files)
        if known is not None and known[0] == stamp:
            return known[1]
        found = source.read(chooser)
        self._read[source.files] = (stamp, found)
        return found

    def story(self, text: str, out: str = "runs", step: int | None = None) -> Story:
        """What a text names.

        Args:
            text: A run's path or name, a folder of an evaluation, RUN@STEP, or a file of lines.
            out: Folder of all runs.
            step: Only this one of a run.

        Raises:
            UsageError: it names nothing that can be shown.
        """
        path = Path(text)
        if path.is_dir() and not (path / record.RUN).is_file():
            inside = sorted(path.glob(f"*/{header.EPISODES}"))
            if not (path / header.EPISODES).is_file() and inside:
                return self._suite(text, path, [file.parent for file in inside])
            return self._recorded(text)
        if path.is_file() or "@" in text:
            return self._recorded(text)
        return self._run(record.locate(text, out), step)

    def _run(self, run: RunFolder, step: int | None) -> Story:
        facts = run.read_run()
        chooser = self.choosers(run) if self.choosers else None
        sources = [*_numbered(run, "groups", "step"), *_numbered(run, "heldout", "held-out")]
        if step is not None:
            sources = [s for s in sources if s.step == step]
            if not sources:
                raise UsageError(f"{run.path}: no episodes of step {step}. {_have(run)}")
        sources.sort(key=lambda s: (s.step or 0, s.kind == "held-out"))
        return Story(
            name=run.path.resolve().name,
            folder=run.path,
            status=str(facts["status"]),
            facts=_facts_of_run(facts, _settings(run.path)),
            chapters=tuple(self.chapter(source, chooser) for source in sources),
            metrics=_metrics(run),
            weights=_weights(run.path, str(facts.get("model"))),
        )

    def _recorded(self, text: str) -> Story:
        found = recorded_in(text)
        where = found.folder.resolve()
        told = "training" if found.header.get("split") == "train" else "held-out tasks"
        named = "evaluation" if len(found.files) == 1 else told
        source = Source("evaluation", None, named, found.files)
        return Story(
            name=where.name,
            folder=found.folder,
            status="done" if (found.folder / header.SUMMARY).exists() else "",
            facts=_facts_of_evaluation(found.header),
            chapters=(self.chapter(source, None),),
            weights=_weights(where, str((found.header.get("model") or {}).get("name"))),
        )

    def _suite(self, text: str, path: Path, folders: Sequence[Path]) -> Story:
        """Several evaluations of one policy, each a chapter."""
        sources = [
            Source("evaluation", at, folder.name, (folder / header.EPISODES,))
            for at, folder in enumerate(folders, 1)
        ]
        return Story(
            name=path.resolve().name,
            folder=path,
            status="",
            facts=(("environments", ", ".join(folder.name for folder in folders)),),
            chapters=tuple(self.chapter(source, None) for source in sources),
        )


def _numbered(run: RunFolder, folder: str, kind: Kind) -> list[Source]:
    paths = [p for p in (run.path / folder).glob("*.jsonl") if p.stem.isdecimal()]
    return [Source(kind, int(p.stem), f"{kind} {int(p.stem)}", (p,)) for p in paths]


def _have(run: RunFolder) -> str:
    steps = sorted(source.step or 0 for source in _numbered(run, "groups", "step"))
    return f"It has {steps[0]} to {steps[-1]}." if steps else "It has none yet."


def _settings(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads((path / record.CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _facts_of_run(facts: Mapping[str, Any], settings: Mapping[str, Any]) -> Facts:
    select = settings.get("select", {})
    budget = select.get("token_budget")
    rows = [
        ("environment", facts.get("env")),
        ("model", facts.get("model")),
        ("kept", f"{facts.get('m')} of {facts.get('n')} a task"),
        ("rule", select.get("rule")),
        ("budget", f"{budget} tokens a step" if budget else None),
        ("status", facts.get("status")),
    ]
    return tuple((name, str(value)) for name, value in rows if value is not None)


def _facts_of_evaluation(found: Mapping[str, Any]) -> Facts:
    model = (found.get("model") or {}).get("name")
    rows = [
        ("environment", found.get("env")),
        ("model", model),
        ("split", found.get("split")),
        ("attempts", f"{found['k']} a task" if "k" in found else None),
    ]
    return tuple((name, str(value)) for name, value in rows if value is not None)


def _metrics(run: RunFolder) -> dict[int, dict[str, Any]]:
    if not run.metrics.is_file():
        return {}
    return {
        int(row["step"]): {name: row[name] for name in METRICS if row.get(name) is not None}
        for row in disk.rows(run.metrics)
    }


def _weights(run: Path, model: str) -> tuple[Path, ...]:
    """The newest policy of the run, or the model it began with where that is a folder."""
    saved = sorted(run.glob("checkpoints/*/policy"), reverse=True)
    from agentrl.tiny import FOLDER

    named = FOLDER if model == "tiny" else Path(model)
    return (*saved, named)
