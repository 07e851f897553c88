"""Text → tokens: numbers, names and signs, each with its place.

In    any text at all
Out   a list of tokens, short enough and not too deeply bracketed, or ExactError
Not   a judge of order: whether the tokens make sense is decided in program.py
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from agentrl.exact.budget import MAX_CHARACTERS, MAX_DEPTH, MAX_SIGNS, MAX_TOKENS, ExactError


class Kind(Enum):
    """What a token is."""

    NUMBER = "number"
    NAME = "name"
    SIGN = "sign"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """One word of an expression."""

    kind: Kind
    """Number, name, sign, or the end of the text."""
    text: str
    """The word in its usual spelling: ^ for **, 1234 for 1,234."""
    at: int
    """Place of its first character, counted from 1."""


SPELLINGS = {
    "\N{MULTIPLICATION SIGN}": "*",
    "\N{MIDDLE DOT}": "*",
    "\N{DIVISION SIGN}": "/",
    "\N{MINUS SIGN}": "-",
    "π": "pi",
    "**": "^",
}
"""Signs that are read as another one. Besides these, only √ ² ³ are not ASCII."""

_EXPONENT = r"(?:[eE][+-]?[0-9]+)?"
PLAIN = rf"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+){_EXPONENT}"
GROUPED = rf"[1-9][0-9]{{0,2}}(?:,[0-9]{{3}})+(?![0-9])(?:\.[0-9]*)?{_EXPONENT}"
_NAME = r"(?P<name>[A-Za-z][A-Za-z0-9]*|π)"
_FOREIGN = "".join(text for text in SPELLINGS if not text.isascii())
_SIGN = rf"(?P<sign>\*\*|[-+*/^%!(),√²³{_FOREIGN}])"
_SPACE = r"(?P<space>[ \t\r\n]+)"
_WITH_CALL = re.compile(rf"(?P<number>{PLAIN})|{_NAME}|{_SIGN}|{_SPACE}")
_WITHOUT_CALL = re.compile(rf"(?P<number>{GROUPED}|{PLAIN})|{_NAME}|{_SIGN}|{_SPACE}")
_CALL = re.compile(r"[A-Za-z][A-Za-z0-9]*[ \t\r\n]*\(")


def tokenize(text: str) -> list[Token]:
    """Cut a text into tokens; the last one is always of kind END."""
    if len(text) > MAX_CHARACTERS:
        raise ExactError(
            f"the expression has {len(text)} characters, and the limit is {MAX_CHARACTERS}. "
            "Split it into several."
        )
    # Beside a call a comma separates arguments, so max(1,234) is never max of 1234.
    pattern = _WITH_CALL if _CALL.search(text) else _WITHOUT_CALL
    tokens = []
    place = 0
    while place < len(text):
        found = pattern.match(text, place)
        if found is None:
            raise ExactError(_unreadable(text[place], place + 1))
        kind = found.lastgroup
        if kind != "space":
            tokens.append(_token(Kind(kind), found.group(), place + 1))
        place = found.end()
    if not tokens:
        raise ExactError("the expression is empty. Give one such as 2*(3+4).")
    _check_shape(tokens)
    return [*tokens, Token(Kind.END, "end", len(text) + 1)]


def _token(kind: Kind, text: str, at: int) -> Token:
    if kind is Kind.NUMBER:
        text = text.replace(",", "")
    return Token(kind, SPELLINGS.get(text, text), at)


def _unreadable(character: str, at: int) -> str:
    return (
        f"character {at}: {character!r} is not part of arithmetic. Use ASCII digits, "
        "+ - * / ^ % ! ( ) and functions such as sqrt(2)."
    )


def _check_shape(tokens: list[Token]) -> None:
    if len(tokens) > MAX_TOKENS:
        raise ExactError(
            f"the expression has {len(tokens)} numbers, names and signs, and the limit is "
            f"{MAX_TOKENS}. Split it into several."
        )
    depth = signs = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        signs = signs + 1 if token.text in ("+", "-") else 0
        if depth > MAX_DEPTH:
            raise ExactError(
                f"character {token.at}: more than {MAX_DEPTH} brackets are open. "
                "Split the expression into several."
            )
        if signs > MAX_SIGNS:
            raise ExactError(
                f"character {token.at}: more than {MAX_SIGNS} signs in a row. Write one."
            )
