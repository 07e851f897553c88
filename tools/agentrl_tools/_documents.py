"""Documents to search: the texts of a folder, or the rows of a JSONL file.

In    a Source: where they are and how they are read
Out   Documents in the order of their ids
Not   a watch on the files: what changes later is not seen
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unicodedata import category

from agentrl.errors import UsageError


@dataclass(frozen=True, slots=True)
class Source:
    """Where documents come from."""

    path: Path
    """A folder, or a JSONL file."""
    suffixes: tuple[str, ...] = ()
    """Endings of the files of a folder."""
    fields: tuple[str, ...] = ()
    """Fields of a row that make its text; one of them at least must be there."""
    id_field: str = "id"
    """Field of a row that names it; the number of its line where there is none."""


@dataclass(frozen=True, slots=True)
class Document:
    """One text with a name."""

    id: str
    text: str


def load(source: Source) -> tuple[Document, ...]:
    """All documents of a source.

    Raises:
        UsageError: There are none, or one cannot be read; it is named.
    """
    if source.path.is_dir():
        found = list(_files(source))
        what = f"no files that end with {' or '.join(source.suffixes)}"
    else:
        found = list(_rows(source))
        what = "no rows"
    if not found:
        raise UsageError(f"{source.path}: {what}. There is nothing to search. Give another source.")
    return tuple(sorted(found, key=lambda document: document.id))


def _files(source: Source) -> Iterator[Document]:
    root = source.path.resolve()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.suffix.lower() not in source.suffixes or _hidden(name):
            continue
        # A link may lead out of the folder, which is all that was given to the policy.
        real = path.resolve()
        if path.is_file() and real.is_relative_to(root) and not _hidden(real.relative_to(root)):
            yield Document(_named(str(path), name.as_posix()), _read(path))


def _named(where: str, name: str) -> str:
    """The name of a document, which stands in a line of a result."""
    if any(category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in name):
        raise UsageError(f"{where!a}: {name[:80]!a} can't name a document in a line. Rename it.")
    return name


def _hidden(name: Path) -> bool:
    return any(part.startswith(".") for part in name.parts)


def _rows(source: Source) -> Iterator[Document]:
    seen: dict[str, int] = {}
    # Not splitlines: what a JSON string may hold unescaped, such as U+2028, ends no line.
    for number, line in enumerate(_read(source.path).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{source.path}:{number}"
        document = _document(where, number, _row(where, line), source)
        first = seen.setdefault(document.id, number)
        if first != number:
            raise UsageError(
                f"{where}: {source.id_field} {document.id[:80]!r} is that of line {first}. "
                "Every row needs one of its own. Change it."
            )
        yield document


def _row(where: str, line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON ({error}). Write a JSON object.") from error
    if not isinstance(row, Mapping):
        raise UsageError(f"{where}: a {type(row).__name__}. Write a JSON object.")
    return row


def _document(where: str, number: int, row: Mapping[str, Any], source: Source) -> Document:
    parts = [row[name] for name in source.fields if row.get(name) is not None]
    wrong = next((part for part in parts if not isinstance(part, str)), None)
    if not parts or wrong is not None:
        why = "there is none" if not parts else f"one is a {type(wrong).__name__}"
        raise UsageError(
            f"{where}: its text should be in {' or '.join(source.fields)}, {why}. "
            f"It has {', '.join(map(str, row)) or 'no fields'}. Name the fields that hold text."
        )
    name = row.get(source.id_field, number)
    if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
        raise UsageError(f"{where}: its {source.id_field} is {name!r:.80}. Give text or a number.")
    return Document(_named(where, str(name)), "\n".join(parts))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read. {error.strerror}. Give another file.") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: not UTF-8 text (byte {error.start}). Only text can be searched. Save it so."
        ) from error
