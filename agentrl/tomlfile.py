"""TOML files that remember their lines, and TOML text that can be read back.

In    a path; or sections of settings as pydantic models
Out   values with the line each came from; text with a comment above every setting
Not   what the values mean: settings.py does that
"""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agentrl.errors import UsageError

Keys = tuple[str, ...]
MOST = 10_000_000
"""Characters of a file that are read: one may be named by mistake, and have no end."""
NOTES = 32
"""Column behind which it stands where a setting came from."""
_CLOSES = re.compile("[]}\"']")
"""What the last line of a statement of several lines has."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A file's values and where they stand."""

    shown: str
    """The path as messages name it."""
    values: Mapping[str, Any]
    lines: Mapping[Keys, int]
    """Line of every table and key; what stands inside a value has the value's line."""

    def where(self, keys: Keys) -> str:
        """`path:line` of a key, or of the nearest thing around it."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return f"{self.shown}:{self.lines[keys]}" if keys else self.shown


def read(path: Path, shown: str = "") -> TomlFile:
    """Read a file; a mistake is told with its line."""
    shown = shown or str(path)
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(MOST + 1)
    except OSError as error:
        raise UsageError(
            f"{shown}: cannot be read. {error.strerror}. Give a file of settings in TOML."
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{shown}: not UTF-8 text (byte {error.start}). Save it as UTF-8."
        ) from error
    if len(text) > MOST:
        raise UsageError(f"{shown}: more than {MOST} characters. Give a file of settings in TOML.")
    try:
        return TomlFile(shown, tomllib.loads(text), _lines(text))
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is no syntax
        raise UsageError(_syntax(shown, str(error), text)) from error


def dump_toml(config: BaseModel, origin: Mapping[str, str] | None = None) -> str:
    """A configuration as TOML.

    Args:
        config: The settings.
        origin: Dotted name to where it came from: that stands behind each setting then, in the
            place of its description above it.
    """
    return "\n\n".join(_section("", config, origin)) + "\n"


def flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested tables as dotted names."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{above}{key}.")
        else:
            found[f"{above}{key}"] = value
    return found


def literal(value: Any) -> str:
    """One value as TOML; what TOML cannot say is refused."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case int() | float():
            return repr(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case Mapping():
            inside = ", ".join(f"{_key(k)} = {literal(v)}" for k, v in value.items())
            return f"{{ {inside} }}" if inside else "{}"
        case list() | tuple():
            return f"[{', '.join(map(literal, value))}]"
    raise UsageError(
        f"{value!r}: a run's config.toml cannot hold a {type(value).__name__}. "
        "Use numbers, text, true, false, lists or tables; leave out what is unset."
    )


def _section(name: str, section: BaseModel, origin: Mapping[str, str] | None) -> Iterator[str]:
    """The text of a section's own settings, then of those below it."""
    above = f"{name}." if name else ""
    tables: list[tuple[str, Any]] = []
    lines = [f"[{name}]"] if name else []
    if origin is None:
        lines.insert(0, f"# {(type(section).__doc__ or '').strip()}")
    for key, field in type(section).model_fields.items():
        value = getattr(section, key)
        if isinstance(value, BaseModel | Mapping):
            tables.append((above + key, value))
            continue
        if origin is None:
            lines.append(f"# {field.description}")
        lines.append(_line(key, value, above, origin))
    if lines:
        yield "\n".join(lines)
    for below, value in tables:
        if isinstance(value, BaseModel):
            yield from _section(below, value, origin)
        elif value:
            entries = (_line(key, entry, f"{below}.", origin) for key, entry in value.items())
            yield "\n".join([f"[{below}]", *entries])


def _line(key: str, value: Any, above: str, origin: Mapping[str, str] | None) -> str:
    text = f"{_key(key)} = {literal(value)}"
    source = "" if origin is None else origin.get(above + key, "")
    # A path may hold what a comment may not.
    note = "".join(c if c.isprintable() else "?" for c in source)
    return f"{text:<{NOTES}}  # {note}" if note else text


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else literal(key)


def _syntax(shown: str, message: str, text: str) -> str:
    """The parser's words with the line in front, as editors and compilers put it."""
    at = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    what = message[: at.start()] if at else message
    line = at[1] if at and at[1] else text.rstrip().count("\n") + 1
    column = f" at column {at[2]}" if at and at[2] else ""
    return f"{shown}:{line}: not TOML. {what}{column}. Mend this line, or the one above it."


def _lines(text: str) -> dict[Keys, int]:
    """The line of every key of a text that is known to be TOML.

    The standard parser tells no lines. But a statement ends with the first line that
    makes it whole, so each can be parsed alone, whatever strings and lists it holds.
    """
    found: dict[Keys, int] = {}
    table: Keys = ()
    statement, start = "", 1
    for number, line in enumerate(text.split("\n"), 1):
        is_first = not statement
        statement += line + "\n"
        if not (is_first or _CLOSES.search(line)):
            continue
        try:
            paths = list(_paths(tomllib.loads(statement)))
        except tomllib.TOMLDecodeError:
            continue
        if statement.lstrip().startswith("["):
            table = ()
        _note(found, ((*table, *path) for path in paths), start)
        if statement.lstrip().startswith("["):
            table = paths[-1]
        statement, start = "", number + 1
    return found


def _note(found: dict[Keys, int], paths: Iterable[Keys], line: int) -> None:
    for path in paths:
        found.setdefault(path, line)


def _paths(value: Any, above: Keys = ()) -> Iterator[Keys]:
    """Every key of nested tables, outermost first."""
    if isinstance(value, list) and value:
        yield from _paths(value[-1], above)
    elif isinstance(value, dict):
        for key, inside in value.items():
            yield (*above, key)
            yield from _paths(inside, (*above, key))
