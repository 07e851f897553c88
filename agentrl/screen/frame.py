"""Screen → frame: how the live view looks at a moment and in a width.

In    a Screen, the time, columns, whether the terminal has every sign
Out   something that rich can print: a box of lines, none longer than it is wide
Not   a state of its own: the same in, the same out

A line is a name and facts in their order of weight; where a terminal is narrow, the last ones go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import RenderableType
from rich.panel import Panel
from rich.text import Text

from agentrl.amounts import duration
from agentrl.events import Evaluating, Started
from agentrl.glyphs import spelled
from agentrl.screen import phases, table
from agentrl.screen.state import Screen
from agentrl.visible import on_a_line

WIDEST = 100
"""Columns of a frame at most."""
EDGE = 4
"""Columns that the box takes."""
NAME = 10
DOT = " · "

STYLES = {"title": "bold", "name": "cyan", "bar": "green", "trend": "green", "warn": "bold yellow"}


def frame(screen: Screen, now: float, width: int, *, rich: bool = True) -> RenderableType:
    """The live view.

    Args:
        screen: What is known.
        now: Seconds, of the clock that the screen was made with.
        width: Columns of the terminal.
        rich: Whether the terminal has signs beyond ASCII.
    """
    outer = max(40, min(WIDEST, width))
    pen = Pen(outer - EDGE, rich)
    lines = [_title(screen, now, pen)]
    if screen.about is not None:
        lines += _body(screen, now, pen)
    return Panel(
        Text("\n").join(lines), box=box.ROUNDED if rich else box.ASCII, width=outer, padding=(0, 1)
    )


def _body(screen: Screen, now: float, pen: Pen) -> list[Text]:
    lines = [pen.line(), *_phases(screen, now, pen)]
    if screen.is_training:
        lines += [pen.line(), *_table(screen, pen), pen.line(), *_last(screen, pen)]
    else:
        lines += _evaluated(screen, pen)
    if screen.warned or screen.aside:
        lines.append(pen.row("said", phases.said(screen), style="warn"))
    foot = _foot(screen, pen)
    return [*lines, pen.line(), foot] if foot.plain else lines


class Pen:
    """Writes lines of one width, in signs that the terminal has."""

    def __init__(self, room: int, rich: bool) -> None:
        """Columns, and whether there are signs beyond ASCII."""
        self.room = room
        self._rich = rich

    def line(self, *parts: tuple[str, str]) -> Text:
        """Pieces of text, each with the name of its style; what has no room is cut."""
        text = Text(no_wrap=True, overflow="crop")
        for words, style in parts:
            text.append(self.spell(words), STYLES.get(style, style))
        text.truncate(self.room, overflow="crop")
        return text

    def row(self, name: str, facts: Sequence[str], bar: str = "", style: str = "") -> Text:
        """A name, perhaps a bar, and as many of the facts as have room."""
        head = f"{name:<{NAME}}"
        said = self.joined(facts, self.room - NAME - cell_len(self.spell(bar)))
        return self.line((head, "name"), (bar, "bar"), (said, style))

    def joined(self, facts: Sequence[str], room: int) -> str:
        """Facts with dots between; the last ones go where they have no room, the first is cut."""
        text = ""
        for fact in facts:
            longer = f"{text}{DOT}{fact}" if text else fact
            if cell_len(self.spell(longer)) > room:
                break
            text = longer
        return text or self.cut(facts[0] if facts else "", room)

    def cut(self, text: str, room: int) -> str:
        """A text of at most so many columns."""
        text = self.spell(text)
        if cell_len(text) <= room:
            return text
        mark = self.spell("…")
        return set_cell_size(text, max(0, room - cell_len(mark))) + mark

    def spell(self, text: str) -> str:
        """The text in signs that the terminal has, and without any that steers it."""
        return spelled(on_a_line(text), self._rich)


def _title(screen: Screen, now: float, pen: Pen) -> Text:
    about = screen.about
    if about is None:
        return pen.line(("getting ready", "title"))
    right = _progress(screen, now)
    room = pen.room - cell_len(pen.spell(right)) - 2
    left = pen.joined(_what(about), room)
    gap = pen.room - cell_len(pen.spell(left)) - cell_len(pen.spell(right))
    return pen.line((left, "title"), (" " * gap, ""), (right, ""))


def _what(about: Started | Evaluating) -> list[str]:
    if isinstance(about, Evaluating):
        each = f" x {about.k}" if about.k > 1 else ""
        return [about.env, about.model, f"{about.split} split", f"{about.tasks} tasks{each}"]
    return [about.env, about.model, f"n {about.n} → m {about.m}", about.rule]


def _progress(screen: Screen, now: float) -> str:
    gone = duration(now - screen.began)
    left = phases.left(screen, now)
    behind = "" if screen.over else f"{DOT}left {duration(left) if left is not None else '?'}"
    if isinstance(screen.about, Started):
        return f"step {screen.step}/{screen.about.steps}{DOT}{gone}{behind}"
    return f"{gone}{behind}"


def _phases(screen: Screen, now: float, pen: Pen) -> list[Text]:
    shown: list[tuple[str, Callable[[Screen, float], phases.Phase]]] = []
    if screen.is_training:
        shown = [("rollout", phases.rollout), ("select", phases.select), ("update", phases.update)]
    if not screen.is_training or "eval" in screen.going:
        shown.append(("held-out" if screen.is_training else "episodes", phases.heldout))
    size = 20 if pen.room >= WIDEST - EDGE else 10
    rows = [(name, read(screen, now)) for name, read in shown]
    return [pen.row(name, p.facts, f"{bar(p.share, size):<{size}}  ") for name, p in rows]


def bar(share: float, size: int) -> str:
    """A line as long as the share; half a sign where it ends inside one."""
    halves = round(2 * size * min(1.0, max(0.0, share)))
    return "━" * (halves // 2) + "╸" * (halves % 2)


def _table(screen: Screen, pen: Pen) -> list[Text]:
    rows = table.rows(screen)
    name, cell = 21, 12 if pen.room >= WIDEST - EDGE else 11
    heads = (f"{head:>{cell}}" for head in table.HEADS)
    lines = [pen.line((" " * name + "".join(heads) + "   trend", "dim"))]
    trend_room = pen.room - name - cell * len(table.HEADS) - 3
    for row in rows:
        cells = "".join(f"{pen.spell(text):>{cell}}" for text in row.cells)
        lines.append(
            pen.line(
                (f"{row.name:<{name}}", "name"),
                (cells, ""),
                (f"   {row.trend(trend_room)}", "trend"),
            )
        )
    return lines


def _last(screen: Screen, pen: Pen) -> list[Text]:
    return [
        pen.row("last step", phases.last_step(screen)),
        pen.row("memory", phases.memory(screen)),
    ]


def _evaluated(screen: Screen, pen: Pen) -> list[Text]:
    """Environments of a suite that are done."""
    return [pen.row("done", table.evaluation(one)) for one in screen.evaluated[-8:]]


def _foot(screen: Screen, pen: Pen) -> Text:
    words, style = phases.advice(screen)
    path = getattr(screen.about, "path", None)
    room = pen.room - cell_len(pen.spell(words)) - len(DOT)
    where = pen.cut(str(path), room) if path is not None and room > 8 else ""
    return pen.line((where + DOT * bool(where and words), ""), (words, style))
