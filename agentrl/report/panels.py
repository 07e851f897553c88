"""Panel: one small chart as plain values, before it is drawn.

In    nothing
Out   frozen lines, layers and cells, with the words for their axes
Not   a picture (charts.py)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentrl.report.series import Curve

Kind = Literal["lines", "stack", "cells"]


@dataclass(frozen=True, slots=True)
class Line:
    """One curve."""

    curve: Curve
    colour: int
    broken: bool = False
    """Drawn in dashes."""
    dots: bool = False
    """Each point is marked: few measurements rather than every step."""
    faint: bool = False
    """Background of another line."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes."""

    name: str
    """Unique in a report; begins the ids inside the picture."""
    title: str
    """What is shown; may hold names that others chose, so it is never drawn."""
    says: str
    """The same for those who do not see it."""
    x: str
    y: str
    kind: Kind = "lines"
    lines: tuple[Line, ...] = ()
    """Of kind lines; of kind stack the layers from below, which have the same places."""
    cells: tuple[tuple[float | None, ...], ...] = ()
    """Of kind cells: shares, one row a step, lowest rank first."""
    share: bool = False
    """Whether heights are shares of one."""
    size: bool = False
    """Whether heights are bytes."""
    extent: tuple[float, float] = (0.0, 1.0)
    """Of kind cells: the first and the last step."""
