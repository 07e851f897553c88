"""Panel → SVG: drawn by matplotlib, coloured by the page.

In    a Panel
Out   an <svg> element: text as text, a title and a description, no date, no chance, and nothing
      in it that a policy, a tool or an author wrote but what it is called, escaped
Not   colours: they are names that the page's style fills in, for light and dark

Here alone matplotlib is loaded.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from agentrl.report.panels import Kind, Panel
from agentrl.report.series import thinned
from agentrl.report.words import MINUS, amount, percent, size
from agentrl.visible import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 340, 210
"""Of a panel, in the page's pixels: as wide as a telephone shows it unshrunk."""
MOST = 400
"""Points of a curve that are drawn."""
COLOURS = 8
MARKS = {
    "o": '<circle cx="13" cy="6" r="3.6"/>',
    "s": '<path d="M9.8 2.8h6.4v6.4h-6.4z"/>',
    "^": '<path d="M13 1.6l4.4 8h-8.8z"/>',
    "D": '<path d="M13 1.4l4.6 4.6-4.6 4.6-4.6-4.6z"/>',
    "v": '<path d="M13 10.4l4.4-8h-8.8z"/>',
    "P": '<path d="M11.6 1.5h2.8v3h3v2.8h-3v3h-2.8v-3h-3v-2.8h3z"/>',
    "X": '<path d="M11.6 1.5h2.8v3h3v2.8h-3v3h-2.8v-3h-3v-2.8h3z" transform="rotate(45 13 6)"/>',
    "*": '<path d="M13 1l1.5 3.3 3.6.4-2.7 2.4.8 3.6-3.2-1.8-3.2 1.8.8-3.6-2.7-2.4 3.6-.4z"/>',
}
"""One a run, for eyes that tell colours badly: matplotlib's name, and its shape in a legend."""
NICE = (1, 2, 2.5, 5, 10)
"""What ticks may be apart, but for a power of ten."""
# Colours that stand for names of the page's style: no real chart has them.
_COLOUR = "#0101{:02x}"
_INK, _MUTED, _GRID, _GROUND = "#010200", "#010201", "#010202", "#010203"
_NAMES = {_INK: "ink", _MUTED: "muted", _GRID: "line", _GROUND: "ground"}
_NAMES |= {_COLOUR.format(i): f"c{i}" for i in range(COLOURS)}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "agentrl",
    "svg.image_inline": True,
    "text.parse_math": False,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _MUTED,
    "axes.labelsize": 11,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": True,
    "font.size": 11,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "xtick.color": _GRID,
    "xtick.labelcolor": _MUTED,
    "xtick.labelsize": 11,
    "ytick.color": _GRID,
    "ytick.labelcolor": _MUTED,
    "ytick.labelsize": 11,
    "ytick.major.size": 0,
    "lines.solid_capstyle": "round",
    "path.simplify": True,
}


def svg(panel: Panel) -> str:
    """The panel as one element for a page."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72), layout="constrained")
        figure.patch.set_visible(False)
        axes = figure.add_subplot()
        axes.patch.set_visible(False)
        axes.set_xlabel(panel.x)
        DRAW[panel.kind](axes, panel)
        _dress(axes, panel)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator")))
    return _inlined(out.getvalue(), panel)


def _lines(axes: Axes, panel: Panel) -> None:
    bands = sum(bool(line.curve.low) for line in panel.lines)
    for line in panel.lines:
        curve = thinned(line.curve, MOST)
        if not curve.x:
            continue
        colour = _COLOUR.format(line.colour % COLOURS)
        if curve.low:
            alpha = 0.16 if bands < 3 else 0.07
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, lw=0, alpha=alpha)
        shape = list(MARKS)[line.colour % len(MARKS)]
        axes.plot(
            curve.x,
            curve.y,
            color=colour,
            alpha=0.3 if line.faint else 1.0,
            lw=1.0 if line.faint else 2.0,
            ls=(0, (4, 2.2)) if line.broken else "-",
            marker="" if line.faint else shape,
            markevery=None if line.dots else [len(curve.x) - 1],
            markerfacecolor=_GROUND if line.broken else colour,
            ms=5,
            clip_on=False,
        )


def _stack(axes: Axes, panel: Panel) -> None:
    if not panel.lines:
        return
    x = panel.lines[0].curve.x
    below = [0.0] * len(x)
    for line in panel.lines:
        above = [low + y for low, y in zip(below, line.curve.y, strict=True)]
        colour = _COLOUR.format(line.colour % COLOURS)
        places = [x[0] - 0.5, x[0] + 0.5] if len(x) == 1 else x
        low, high = (v * 2 if len(x) == 1 else v for v in (below, above))
        axes.fill_between(
            places, low, high, facecolor=colour, edgecolor=_GROUND, lw=0.6, alpha=0.85
        )
        below = above
    axes.margins(x=0)


def _cells(axes: Axes, panel: Panel) -> None:
    """A column a step, or some steps; the stronger the colour, the more were kept."""
    from matplotlib.patches import Rectangle

    start, end = panel.extent
    wide = (end - start + 1) / max(1, len(panel.cells))
    for column, shares in enumerate(panel.cells):
        high = 1 / max(1, len(shares))
        first = 0
        for row in range(1, len(shares) + 1):
            if row < len(shares) and shares[row] == shares[first]:
                continue
            share = shares[first]
            if share:
                corner = (start - 0.5 + column * wide, first * high)
                cell = Rectangle(
                    corner, wide, (row - first) * high, facecolor=_COLOUR.format(0), lw=0
                )
                cell.set_alpha(round(min(1.0, share), 3))
                axes.add_patch(cell)
            first = row
    axes.set_xlim(start - 0.5, end + 0.5)
    axes.set_ylim(0, 1)
    axes.set_yticks([0.03, 0.97], ["lowest", "highest"])


DRAW: Mapping[Kind, Callable[[Axes, Panel], None]] = {
    "lines": _lines,
    "stack": _stack,
    "cells": _cells,
}


def _dress(axes: Axes, panel: Panel) -> None:
    """Ticks that people read, few of them."""
    from matplotlib.ticker import MaxNLocator

    steps = panel.x in ("step", "update")
    places = MaxNLocator(nbins=5, steps=NICE, integer=steps, min_n_ticks=1)
    axes.xaxis.set_major_locator(places)
    axes.xaxis.set_major_formatter(lambda v, _: _tick(v))
    if panel.kind == "cells":
        return
    axes.grid(axis="y")
    low, high = axes.dataLim.intervaly
    if panel.share and (high > 0.5 or panel.kind == "stack"):
        high = 1.0
    unit = _unit(high) if panel.size else 1.0
    heights = MaxNLocator(nbins=4, steps=NICE).tick_values(min(0.0, low) / unit, high / unit)
    ticks = [h * unit for h in heights]
    axes.set_yticks(ticks)
    axes.set_ylim(ticks[0], ticks[-1])
    show = percent if panel.share else size if panel.size else _tick
    axes.yaxis.set_major_formatter(lambda v, _: show(v))


def _unit(largest: float) -> float:
    """Bytes that ticks are whole numbers of."""
    return next((float(2**bits) for bits in (30, 20, 10) if largest >= 2**bits), 1.0)


def _tick(value: float) -> str:
    return amount(value) if abs(value) >= 1000 else f"{value:.6g}".replace("-", MINUS)


def _inlined(text: str, panel: Panel) -> str:
    """What matplotlib wrote, fit to stand among others in a page."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"<defs>\s*</defs>", "", text)
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r'\b(id="|url\(#|href="#)', rf"\g<1>{panel.name}-", text)
    text = re.sub(r"#0[0-9a-f]{5}\b", lambda m: _named(m[0]), text)
    text = re.sub(r"font-family: [^;\"]*;? ?| transform=\"rotate\(-0 [^\"]*\"", "", text)
    text = text.replace("xlink:href", "href")
    # Only between quotation marks: what is written on an axis keeps its digits.
    text = re.sub(r'="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m[0]), text)
    text = re.sub(r"\n\s*", "\n", text)
    names = f"{panel.name}-title {panel.name}-says"
    head = (
        f'<svg class="{panel.kind}" role="img" aria-labelledby="{names}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}">'
        f'<title id="{panel.name}-title">{_safe(panel.title)}</title>'
        f'<desc id="{panel.name}-says">{_safe(panel.says)}</desc>'
    )
    return re.sub(r"<svg.*?>", lambda _: head, text, count=1, flags=re.S)


def _named(colour: str) -> str:
    name = _NAMES.get(colour)
    return f"var(--{name})" if name else colour


def _safe(text: str) -> str:
    return escape(visible(text))


def mark(colour: int, broken: bool, kind: Kind) -> str:
    """What stands for a curve, or for a layer, in a legend."""
    name = f"var(--c{colour % COLOURS})"
    dash = ' stroke-dasharray="4 2.5"' if broken else ""
    line = f'<path d="M1 6H25" stroke="{name}" stroke-width="2.4"{dash}/>'
    layer = '<path d="M5 1h16v10h-16z"/>'
    shape = list(MARKS.values())[colour % len(MARKS)]
    inside = f'<g fill="var(--ground)" stroke="{name}">{shape}</g>' if broken else shape
    head = '<svg aria-hidden="true" width="26" height="12" viewBox="0 0 26 12"'
    return f'{head} fill="{name}">{layer if kind == "stack" else line + inside}</svg>'
