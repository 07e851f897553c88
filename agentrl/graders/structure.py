r"""Text → Form: what kind of answer it is, and of what parts.

In    a gold answer or an answer as it was written
Out   Form; of kind OPAQUE with the reason as its name where it can't be read
Not   a comparison; and no guess between two readings: such a text is OPAQUE

From the loosest to the tightest: lists, relations, unions, ±, brackets, matrices, leaves.
"""

from __future__ import annotations

import re
from functools import lru_cache

from agentrl.graders.form import Form, Kind
from agentrl.graders.latex import Clean, clean
from agentrl.graders.leaves import read_leaf
from agentrl.graders.splitting import (
    alternatives,
    apart,
    every_comma,
    inside,
    related,
    several,
    united,
)

MAX_PARTS = 100

_NAME = re.compile(
    r"(?:\\?[A-Za-z]+|[A-Za-z])(?:_(?:[A-Za-z0-9]|\{[A-Za-z0-9]+\}))?'?(?:\([a-z]\))?"
)
_MATRIX = re.compile(
    r"\\begin\{([pbBvV]?matrix|array)\}(?:\{[lcr| ]*\})?(.*)\\end\{\1\}", re.DOTALL
)
_FLIPPED = {"<": ">", ">": "<", "≤": "≥", "≥": "≤", "=": "=", "≠": "≠"}
_CHAINS = {"<": "()", "≤": "[]"}
_BARE = frozenset("=≠∈<>≤≥")


@lru_cache(maxsize=4096)
def read(text: str) -> Form:
    """The form of an answer."""
    cleaned = clean(text)
    if cleaned.problem:
        return Form(Kind.OPAQUE, "", name=cleaned.problem)
    return _whole(cleaned)


def _whole(cleaned: Clean) -> Form:
    return _Reading(cleaned.worded).several(cleaned.text)


class _Reading:
    """Reading one text; `worded` tells what its letters are likely to be."""

    def __init__(self, worded: bool) -> None:
        self.worded = worded
        self.left = MAX_PARTS

    def several(self, text: str) -> Form:
        parts = [part.strip() for part in several(text)]
        parts = [part for part in parts if part]
        self.left -= len(parts)
        if self.left < 0:
            return Form(Kind.OPAQUE, text, name=f"over {MAX_PARTS} parts")
        if len(parts) < 2:
            return self.relation(parts[0] if parts else text)
        forms = [self.relation(part) for part in parts]
        choices = alternatives(text)
        if len(choices) == len(forms) and all(_is_interval(form) for form in forms):
            return Form(Kind.UNION, text, parts=tuple(forms), name=forms[0].name)
        return _one_name(text, forms)

    def relation(self, text: str) -> Form:
        sides, signs = related(text)
        sides = [side.strip() for side in sides]
        if not signs:
            return self.union(text)
        if not all(sides):
            return Form(Kind.OPAQUE, text, name="a relation without a side")
        return (
            self.named(sides, signs)
            or self.inequality(sides, signs)
            or Form(
                Kind.RELATION,
                text,
                parts=tuple(self.union(side) for side in sides),
                ends="".join(signs),
            )
        )

    def named(self, sides: list[str], signs: list[str]) -> Form | None:
        """Names: x = 5, x ∈ (0, 1); and x = 2 + 3 = 5, if all of it is one number."""
        if set(signs) - {"=", "∈"} or (len(signs) > 1 and "∈" in signs):
            return None
        if not _is_name(sides[0]) and _is_name(sides[-1]) and signs == ["="]:
            sides = sides[::-1]
        if not _is_name(sides[0]):
            return None
        forms = [self.union(side) for side in sides[1:]]
        if len(forms) > 1 and len({form.value for form in forms}) > 1:
            return None
        if len(forms) > 1 and forms[0].value is None:
            return None
        return forms[-1].called(sides[0].replace(" ", ""))

    def inequality(self, sides: list[str], signs: list[str]) -> Form | None:
        """Intervals: x < 2 and 1 ≤ x ≤ 2."""
        if len(signs) == 1 and _is_name(sides[-1]):
            sides, signs = sides[::-1], [_FLIPPED.get(signs[0], signs[0])]
        if len(signs) == 1 and _is_name(sides[0]) and signs[0] in "<>≤≥":
            bound = self.union(sides[1])
            if bound.kind not in (Kind.NUMBER, Kind.EXPRESSION):
                return None
            return _ray(signs[0], bound, sides[0])
        if len(signs) != 2 or not _is_name(sides[1]):
            return None
        if set(signs) <= {">", "≥"}:
            sides, signs = sides[::-1], [_FLIPPED[sign] for sign in signs[::-1]]
        if not set(signs) <= {"<", "≤"}:
            return None
        ends = _CHAINS[signs[0]][0] + _CHAINS[signs[1]][1]
        low, high = self.union(sides[0]), self.union(sides[2])
        return _interval(low, high, ends).called(sides[1])

    def union(self, text: str) -> Form:
        parts = [part.strip() for part in united(text)]
        if len(parts) < 2:
            return self.plus_or_minus(text)
        forms = [self.bracketed(part) for part in parts]
        if all(form.kind is Kind.SET for form in forms):
            return Form(Kind.SET, text, parts=tuple(p for form in forms for p in form.parts))
        known = all(form.kind in (Kind.SET, Kind.TUPLE) for form in forms)
        return Form(Kind.UNION if known else Kind.OPAQUE, text, parts=tuple(forms))

    def plus_or_minus(self, text: str) -> Form:
        if text.count("±") != 1:
            return self.bracketed(text)
        left, _, right = text.partition("±")
        both = [self.bracketed(f"{left}{sign}{right}") for sign in ("+", "-")]
        return Form(Kind.LIST, text, parts=tuple(both))

    def bracketed(self, text: str) -> Form:
        found = inside(text)
        if found is None:
            return self.matrix(text)
        ends, content = found
        if ends == "⦃⦄":
            return Form(Kind.SET, text, parts=self.elements(content))
        if ends == "{}" or (ends == "()" and len(every_comma(content)) == 1):
            return self.relation(content) if content else Form(Kind.OPAQUE, text)
        if ends[0] not in "([" or ends[1] not in ")]":
            return Form(Kind.OPAQUE, text)
        return Form(Kind.TUPLE, text, parts=self.elements(content), ends=ends)

    def elements(self, content: str) -> tuple[Form, ...]:
        if not content:
            return ()
        # "(1, 000)" never is; inside brackets only a semicolon saves a comma for thousands.
        pieces = every_comma(content) if ";" not in content else apart(content, re.compile(";"))
        self.left -= len(pieces)
        if self.left < 0:
            return (Form(Kind.OPAQUE, content, name=f"over {MAX_PARTS} parts"),)
        return tuple(self.relation(piece.strip()) for piece in pieces)

    def matrix(self, text: str) -> Form:
        found = _MATRIX.fullmatch(text)
        if found is None:
            return Form(Kind.SET, text) if text == "∅" else read_leaf(text, self.worded)
        rows = [row.strip() for row in found[2].split("\\\\")]
        parts = []
        for row in [row for row in rows if row]:
            cells = row.split("&")
            self.left -= len(cells)
            if self.left < 0:
                return Form(Kind.OPAQUE, text, name=f"over {MAX_PARTS} parts")
            forms = tuple(self.relation(cell.strip()) for cell in cells)
            parts.append(Form(Kind.LIST, row, parts=forms))
        return Form(Kind.MATRIX, text, parts=tuple(parts))


def _is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(text)) and text not in ("e", "i", "\\pi", "∞")


def _is_interval(form: Form) -> bool:
    return form.kind is Kind.TUPLE and len(form.parts) == 2 and form.name != ""


def _ray(sign: str, bound: Form, name: str) -> Form:
    endless = read_leaf("-∞" if sign in "<≤" else "∞", False)
    if sign in "<≤":
        return _interval(endless, bound, "(" + _CHAINS[sign][1]).called(name)
    return _interval(bound, endless, _CHAINS[_FLIPPED[sign]][0] + ")").called(name)


def _interval(low: Form, high: Form, ends: str) -> Form:
    text = f"{ends[0]}{low.text},{high.text}{ends[1]}"
    return Form(Kind.TUPLE, text, parts=(low, high), ends=ends)


def _one_name(text: str, forms: list[Form]) -> Form:
    """Values of one name: x = 2 or x = 3, and x = 2, 3."""
    name = forms[0].name
    if name and all(form.name in (name, "") for form in forms):
        parts = tuple(form.called("") for form in forms)
        return Form(Kind.LIST, text, parts=parts, name=name)
    return Form(Kind.LIST, text, parts=tuple(forms))
