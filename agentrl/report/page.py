"""Document → one HTML page that asks for nothing.

In    a Document
Out   text: styles and charts inside, no script, no address that is loaded
Not   trust in any text: all of it is escaped, but for the charts, which charts.py makes of numbers
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from agentrl.report import charts
from agentrl.report.document import Document, Transcripts
from agentrl.report.markdown import heading
from agentrl.report.panels import Kind, Panel
from agentrl.visible import visible

TEMPLATES = Path(__file__).parent / "templates"
SHORT = 3000
"""Characters of conversations that are shown unasked."""


def html(document: Document) -> str:
    """The page."""
    return _template().render(document=document)


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.globals |= {
        "picture": _picture,
        "mark": _mark,
        "heading": heading,
        "role": _role,
        "is_open": _is_open,
    }
    environment.tests["kind"] = lambda block, name: type(block).__name__ == name
    return environment.get_template("report.html")


def _shown(value: object) -> object:
    """Text in which what turns its direction, or cannot be seen, is written out."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else visible(value)


def _picture(panel: Panel) -> Markup:
    return Markup(charts.svg(panel))  # escaped where it is made


def _is_open(block: Transcripts, place: int) -> bool:
    """Whether a conversation stands open: all short ones, else one of a kind, or one pair."""
    size = sum(len(said.text) for told in block.told for said in told.said)
    return size <= SHORT or place <= (block.told[0].when != "")


def _role(said: str) -> str:
    """The class of a message: whose it is."""
    return next((known for known in ("policy", "tool", "task") if said.split()[:1] == [known]), "")


def _mark(colour: int, broken: bool, kind: Kind) -> Markup:
    return Markup(charts.mark(colour, broken, kind))  # made of numbers
