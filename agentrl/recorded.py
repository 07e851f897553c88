"""Recorded episodes, wherever they lie: an evaluation, or a run's held-out or training ones.

In    a folder of `agentrl eval`, RUN, RUN@STEP, a folder of lines in a run, or one file of them
Out   Recorded: what is known of how they were played, and their lines, one at a time
Not   a figure, nor a whole file in memory
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrl import header, journal, record
from agentrl.errors import UsageError

HASH = "task_hash"
"""Says which task a line is of; lines of runs have only its id, which an author chooses."""
FIELDS = ("task_id", "member", "reward", "stop", "status", "messages")


@dataclass(frozen=True, slots=True)
class Recorded:
    """Lines of one evaluation, or of one or more steps."""

    name: str
    """As it was given."""
    header: Mapping[str, Any]
    """What is known of it; a run says less than an evaluation does."""
    files: tuple[Path, ...]
    folder: Path
    """Where something may be written beside."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every whole line, in order.

        Raises:
            UsageError: a line is no episode.
        """
        for path in self.files:
            for _, _, row in placed(path):
                yield row


def placed(path: Path) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The episodes of a file, each with the byte where its line begins and the bytes it has.

    Raises:
        UsageError: a line is no episode.
    """
    for number, (start, size, row) in enumerate(journal.placed(path), 1):
        missing = next((name for name in FIELDS if name not in row), None)
        if missing is not None:
            raise UsageError(
                f"{path}:{number}: no {missing}. It is not what a run or an evaluation "
                "writes. Name another file."
            )
        yield start, size, row


def task_of(row: Mapping[str, Any]) -> str:
    """Which task a line is of: its hash where the line has it, else its id."""
    return str(row.get(HASH) or row["task_id"])


def recorded_in(text: str) -> Recorded:
    """The episodes that a text names.

    Raises:
        UsageError: there are none.
    """
    path = Path(text)
    if (path / header.EPISODES).is_file():
        return Recorded(text, header.read(path), (path / header.EPISODES,), path)
    if path.is_file():
        return _beside(text, path.parent, (path,))
    if path.is_dir() and any(path.glob("*.jsonl")) and not (path / "run.json").exists():
        files = tuple(sorted(path.glob("*.jsonl")))
        return _beside(text, path, files[-1:] if path.name == "heldout" else files)
    run, step = record.parted(text)
    if path.is_dir() and not (path / "run.json").exists():
        raise UsageError(
            f"{text}: no episodes there. Name a folder that `agentrl eval --out` wrote, or a run."
        )
    folder = record.locate(run)
    found = sorted((folder.path / "heldout").glob("*.jsonl"))
    steps = [path for path in found if path.stem.isdecimal()]
    wanted = [p for p in steps if not step or p.stem == step.zfill(6)]
    if not wanted:
        have = ", ".join(str(int(p.stem)) for p in steps) or "none"
        raise UsageError(f"{text}: no held-out episodes of that step. There are those of: {have}.")
    return Recorded(text, _of_run(folder.path, "heldout"), (wanted[-1],), folder.path)


def _beside(text: str, folder: Path, files: tuple[Path, ...]) -> Recorded:
    """Lines in a folder of an evaluation, or in one of a run's."""
    if (folder / header.NAME).is_file():
        return Recorded(text, header.read(folder), files, folder)
    if (folder.parent / "run.json").is_file():
        return Recorded(text, _of_run(folder.parent, folder.name), files, folder.parent)
    raise UsageError(
        f"{text}: nothing says how these episodes were played. Name the file where it was "
        f"written, beside {header.NAME} or in a run's folder."
    )


def _of_run(path: Path, kind: str) -> dict[str, Any]:
    """What a run's settings say of its episodes, in an evaluation's words."""
    try:
        settings = tomllib.loads((path / header.SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path / header.SETTINGS}: cannot be read ({error}). Take it from a copy of the run."
        ) from error
    try:
        return _told(settings, held=kind == "heldout")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path / header.SETTINGS}: it has not the settings of a run ({error!r}). "
            "Take it from a copy of the run."
        ) from error


def _told(settings: Mapping[str, Any], *, held: bool) -> dict[str, Any]:
    rollout = dict(settings.get("rollout", {}))
    limits = {name: rollout[name] for name in sorted(rollout) if name in header.LIMITS}
    return {
        "env": settings["env"]["name"],
        "options": settings["env"].get("options", {}),
        "split": "test" if held else "train",
        "k": settings["heldout"]["k"] if held else settings["select"]["n"],
        "sampling": {"temperature": rollout.get("temperature", 1.0)},
        "limits": limits,
        "reward": "environment",
        "model": {"name": settings["model"]["name"]},
    }
