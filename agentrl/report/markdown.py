"""Document → Markdown, for a pull request or a terminal: the same words and numbers.

In    a Document
Out   text; charts are their sentence and a table of their numbers
Not   pictures; nor Markdown of others: their text cannot make a link, a picture, a mention or HTML
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agentrl.report.document import (
    Chart,
    Checks,
    Command,
    Document,
    Section,
    Table,
    Transcripts,
    Words,
)
from agentrl.report.transcripts import Told
from agentrl.report.words import number
from agentrl.visible import visible

_SPECIAL = re.compile(r"([\\`*_\[\]#~$|!])")


def markdown(document: Document) -> str:
    """The twin of the page."""
    return "\n\n".join(_blocks(document)) + "\n"


def _blocks(document: Document) -> Iterator[str]:
    yield f"# {_safe(document.title)}"
    for answer in document.answers:
        about = f" ({_safe(answer.about)})" if answer.about else ""
        yield f"**{_safe(answer.of)}**{about}: {_safe(answer.verdict.text)}"
        yield from (_safe(note) for note in answer.verdict.notes)
    if document.notes:
        yield "\n".join(f"* {_safe(note)}" for note in document.notes)
    for section in document.sections:
        yield from _section(section)
    yield f"Made by {_safe(document.made)}."


def _section(section: Section) -> Iterator[str]:
    yield f"## {_safe(section.title)}"
    for block in section.blocks:
        yield from WRITE[type(block)](block)


def _words(words: Words) -> Iterator[str]:
    yield _safe(words.text)


def _table(table: Table) -> Iterator[str]:
    if table.caption:
        yield _safe(table.caption)
    yield _rows(table.head, table.rows)


def _chart(chart: Chart) -> Iterator[str]:
    yield f"### {_safe(chart.title)}"
    yield _safe(chart.says)
    said = [f"* {_safe(p.title)}. {_safe(p.says)}" for p in chart.panels]
    yield "\n".join(said)
    yield from _table(chart.numbers)


def _checks(checks: Checks) -> Iterator[str]:
    head = ("figure", *checks.runs, "what is normal")
    rows = []
    for one in checks.findings:
        figures = zip(one.shown, one.states, strict=True)
        cells = (f"{figure} (look)" if state == "look" else figure for figure, state in figures)
        rows.append((one.name, *cells, f"{one.normal} {one.cure}".strip()))
    yield _rows(head, rows)


def _transcripts(block: Transcripts) -> Iterator[str]:
    yield f"### {_safe(block.title)}"
    for told in block.told:
        yield f"{_safe(heading(told))}:"
        text = "\n".join(
            f"{said.role}: {said.text}" if said.text else f"[{said.role}]" for said in told.said
        )
        yield _fenced(text)


def heading(told: Told) -> str:
    """What a transcript earned, and of which task."""
    when = f"{told.when}: " if told.when else ""
    return f"{when}reward {number(told.reward)}, stop {told.stop}, task {told.task[:16]}"


def _command(command: Command) -> Iterator[str]:
    yield _fenced(command.text)


WRITE: Mapping[type, Callable[[Any], Iterator[str]]] = {
    Words: _words,
    Table: _table,
    Chart: _chart,
    Checks: _checks,
    Transcripts: _transcripts,
    Command: _command,
}


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    cells = [[_safe(c) if i != 1 else c for c in row] for i, row in enumerate(lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _fenced(text: str) -> str:
    """Text as it is, within a fence longer than any in it."""
    shown = visible(text)
    ticks = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{fence}text\n{shown}\n{fence}"


def _safe(text: str) -> str:
    """One line in which nothing is Markdown or HTML."""
    line = " ".join(visible(text).split())
    line = _SPECIAL.sub(r"\\\1", line).replace("&", "&amp;").replace("<", "&lt;")
    return line.replace("@", "&#64;").replace("://", "&#58;//")
