"""Scenes → the pages that hold them: one file, or several where one would be too large.

In    stories, a file to write
Out   PATH, and PATH-2, PATH-3 and so on beside it; each holds whole tasks and stands alone
Not   more than one task's conversations in memory
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrl import disk
from agentrl.errors import RunError, UsageError
from agentrl.view.page import Block, page
from agentrl.view.scene import (
    Row,
    Scene,
    first_of,
    row_facts,
    scene_facts,
    scenes_of,
    trails,
)
from agentrl.view.story import Choosers, Shelf, Story
from agentrl.view.transcript import cards
from agentrl.view.words import Pieces, pieces_of

LIMIT = 20_000_000
"""Bytes of recorded lines on a page; a single task may have more."""
MARK = '<meta name="generator" content="agentrl view">'


@dataclass(frozen=True, slots=True)
class Book:
    """What is shown, before it is laid out."""

    stories: tuple[Story, ...]
    scenes: tuple[Scene, ...]

    @property
    def title(self) -> str:
        """Of the window."""
        return " · ".join(story.name for story in self.stories)


class Reader:
    """Reads the same again, as it is then."""

    def __init__(
        self,
        what: Sequence[str],
        out: str = "runs",
        step: int | None = None,
        task: str = "",
        choosers: Choosers | None = None,
    ) -> None:
        """Remember what was asked for.

        Args:
            what: One run or evaluation, or two.
            out: Folder of all runs.
            step: Only this step.
            task: Only tasks whose id or words hold this.
            choosers: What makes a run's choices again.
        """
        self._what, self._out, self._step, self._task = what, out, step, task
        self._shelves = [Shelf(choosers) for _ in what]

    def __call__(self) -> Book:
        """Read what has changed.

        Raises:
            UsageError: there is nothing to show.
        """
        pairs = zip(self._shelves, self._what, strict=True)
        stories = tuple(shelf.story(text, self._out, self._step) for shelf, text in pairs)
        scenes = tuple(scenes_of(stories, self._task))
        if not scenes:
            what = f"no task with {self._task!r}" if self._task else "no episodes yet"
            raise UsageError(f"{' and '.join(self._what)}: {what}. There is nothing to show.")
        return Book(stories, scenes)


@dataclass(frozen=True, slots=True)
class Sheet:
    """What one page holds: rows by scene."""

    rows: tuple[tuple[int, int], ...]
    """Position of the scene, and of the row in it."""


def write(book: Book, path: Path, limit: int = LIMIT) -> list[Path]:
    """Write the pages; those of an earlier, longer book go.

    Raises:
        RunError: there is no room, or no folder.
    """
    sheets = _newest_first(laid_out(book.scenes, limit), first_of(book.scenes))
    paths = [path, *(path.with_stem(f"{path.stem}-{n}") for n in range(2, len(sheets) + 1))]
    names = [p.name for p in paths]
    pieces = [pieces_of(story.weights) for story in book.stories]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for at, where in enumerate(paths):
            story = disk.plain(story_of(book, sheets, names, at))
            _put(where, page(book.title, story, _blocks(book, sheets[at], pieces)))
        _forget(path, len(paths))
    except OSError as error:
        raise RunError(
            f"{path}: cannot be written ({error.strerror}). Make room, or give --out."
        ) from error
    return paths


def laid_out(scenes: Sequence[Scene], limit: int) -> list[Sheet]:
    """Rows in order, a page as full as it may be; a scene that fits on a page is not torn."""
    sheets: list[list[tuple[int, int]]] = [[]]
    room = limit
    for at, scene in enumerate(scenes):
        whole = sum(row.size for row in scene.rows)
        if room < whole <= limit and sheets[-1]:
            sheets.append([])
            room = limit
        for number, row in enumerate(scene.rows):
            if room < row.size and sheets[-1]:
                sheets.append([])
                room = limit
            sheets[-1].append((at, number))
            room -= row.size
    return [Sheet(tuple(rows)) for rows in sheets]


def _newest_first(sheets: Sequence[Sheet], scene: int) -> list[Sheet]:
    """The page that is opened is the one that holds what a person looks at first."""
    at = next(n for n, sheet in enumerate(sheets) if any(s == scene for s, _ in sheet.rows))
    return [sheets[at], *sheets[:at], *sheets[at + 1 :]]


def story_of(
    book: Book, sheets: Sequence[Sheet], names: Sequence[str], at: int, *, live: bool = False
) -> dict[str, Any]:
    """What a page shows but for conversations."""
    here, where = set(sheets[at].rows), _pages(sheets)
    trail = [trails(story) for story in book.stories]
    return {
        "live": live,
        "sides": [
            {"name": s.name, "status": s.status, "facts": [list(fact) for fact in s.facts]}
            for s in book.stories
        ],
        "pages": list(names),
        "page": at,
        "first": first_of(book.scenes),
        "scenes": [
            {
                "key": scene.key,
                "title": scene.title,
                "pages": where.get(number, [at]),
                "sides": scene_facts(scene, book.stories),
                "rows": [
                    row_facts(row, scene, trail) | {"id": f"{scene.key}-{n}"}
                    for n, row in enumerate(scene.rows)
                    if (number, n) in here
                ],
            }
            for number, scene in enumerate(book.scenes)
        ],
    }


def talk(row: Row, pieces: Sequence[Pieces]) -> list[list[list[dict[str, Any]]] | None]:
    """The conversations of a task: a side, a member in the order of the strip, a card."""
    sides = zip(row.groups, pieces, strict=True)
    return [
        None if group is None else [cards(b.place.row(), read) for b in group.members]
        for group, read in sides
    ]


def _blocks(book: Book, sheet: Sheet, pieces: Sequence[Pieces]) -> Iterator[Block]:
    for scene, number in sheet.rows:
        one = book.scenes[scene]
        yield f"{one.key}-{number}", disk.plain(talk(one.rows[number], pieces))


def _pages(sheets: Sequence[Sheet]) -> dict[int, list[int]]:
    """Scene to the pages that hold a part of it."""
    found: dict[int, list[int]] = {}
    for page_number, sheet in enumerate(sheets):
        for scene in dict.fromkeys(scene for scene, _ in sheet.rows):
            found.setdefault(scene, []).append(page_number)
    return found


def _put(path: Path, parts: Iterator[str]) -> None:
    """Put a page in place of an older one, which stays where this fails."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(parts)
        aside.replace(path)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


def _forget(path: Path, count: int) -> None:
    """Remove pages of ours that this book no longer has."""
    for old in path.parent.glob(f"{path.stem}-*{path.suffix}"):
        number = re.fullmatch(r"-(\d+)", old.stem.removeprefix(path.stem))
        if number and int(number[1]) > count:
            with old.open("rb") as file:
                ours = MARK.encode() in file.read(2000)
            if ours:
                old.unlink()
