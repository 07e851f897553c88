"""Document: what a report says, before it is HTML or Markdown.

In    nothing
Out   frozen blocks in sections: words, tables, charts, checks, transcripts, commands
Not   looks: page.py and markdown.py decide those, and leave nothing out
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from agentrl.report.health import Finding
from agentrl.report.panels import Panel
from agentrl.report.transcripts import Told
from agentrl.report.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Words:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head; the first column names them."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels that belong together, and their numbers."""

    title: str
    says: str
    """A sentence on what is drawn."""
    panels: tuple[Panel, ...]
    legend: tuple[tuple[str, int, bool], ...]
    """Name, colour, and whether its line is broken."""
    numbers: Table


@dataclass(frozen=True, slots=True)
class Checks:
    """Findings, each with a figure for every run."""

    runs: tuple[str, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Transcripts:
    """Conversations under one heading."""

    title: str
    told: tuple[Told, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """Something to type."""

    text: str


Block: TypeAlias = Words | Table | Chart | Checks | Transcripts | Command


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it."""

    name: str
    """For links."""
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is found of a run, or of one against another."""

    of: str
    about: str
    """What kind of run it is, in a line; empty for a comparison."""
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report."""

    title: str
    answers: tuple[Answer, ...]
    notes: tuple[str, ...]
    """What is missing."""
    sections: tuple[Section, ...]
    made: str
    """By what."""
