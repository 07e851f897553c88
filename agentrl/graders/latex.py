r"""LaTeX and Unicode → one spelling, in which a thing is written one way.

In    a gold answer or an answer, in LaTeX, plain text or a mixture
Out   Clean: \frac, \sqrt and the like with braces kept; relations and set braces as
      single characters; None with a reason where brackets don't close or the text is too long
Not   mathematics: nothing is computed, and no word is understood

Set braces become ⦃ ⦄, so that { } are only ever LaTeX's own; currency signs become ¤ in front.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

MAX_LENGTH = 1000
"""Characters of an answer that is compared."""
MAX_DEPTH = 20
"""Brackets in brackets."""

OPEN, CLOSE = "([{⦃", ")]}⦄"


@dataclass(frozen=True, slots=True)
class Clean:
    """A text in the one spelling."""

    text: str
    worded: bool
    r"""Whether letters stood in \text or the like, where they are words and no variables."""
    problem: str = ""
    """Why it can't be read; the text is empty then."""


_CHARACTERS = str.maketrans(
    {
        "\N{MINUS SIGN}": "-",
        "\N{EN DASH}": "-",
        "\N{EM DASH}": "-",
        "\N{HYPHEN}": "-",
        "\N{NON-BREAKING HYPHEN}": "-",
        "\N{MULTIPLICATION SIGN}": "\\cdot ",
        "\N{MIDDLE DOT}": "\\cdot ",
        "\N{DOT OPERATOR}": "\\cdot ",
        "\N{BULLET OPERATOR}": "\\cdot ",
        "\N{ASTERISK OPERATOR}": "\\cdot ",
        "÷": "/",
        "\N{DIVISION SLASH}": "/",
        "\N{FRACTION SLASH}": "/",
        "≦": "≤",
        "⩽": "≤",
        "≧": "≥",
        "⩾": "≥",
        "\N{LOGICAL OR}": " or ",
        "\N{LOGICAL AND}": " and ",
        "\N{MASCULINE ORDINAL INDICATOR}": "°",
        "π": "\\pi ",
        "θ": "\\theta ",
        "…": "...",
        "\N{RIGHT SINGLE QUOTATION MARK}": "'",
        "〈": "(",
        "〉": ")",
        "⟨": "(",
        "⟩": ")",
        "\u200b": None,
        "\ufeff": None,
        "⦃": "{",
        "⦄": "}",
    }
)

_SYMBOLS = {
    "le": "≤",
    "leq": "≤",
    "leqslant": "≤",
    "ge": "≥",
    "geq": "≥",
    "geqslant": "≥",
    "lt": "<",
    "gt": ">",
    "ne": "≠",
    "neq": "≠",
    "in": "∈",
    "infty": "∞",
    "infin": "∞",
    "cup": "\N{UNION}",
    "pm": "±",
    "emptyset": "∅",
    "varnothing": "∅",
    "degree": "°",
    "circ": "°",
    "times": "\\cdot ",
    "cdot": "\\cdot ",
    "ast": "\\cdot ",
    "div": "/",
    "colon": ":",
    "lor": " or ",
    "vee": " or ",
    "land": " and ",
    "wedge": " and ",
    "ldots": "...",
    "dots": "...",
    "cdots": "...",
    "lbrace": "⦃",
    "rbrace": "⦄",
    "langle": "(",
    "rangle": ")",
    "lbrack": "[",
    "rbrack": "]",
    "lparen": "(",
    "rparen": ")",
    "vert": "|",
    "lvert": "|",
    "rvert": "|",
    "dfrac": "\\frac",
    "tfrac": "\\frac",
    "cfrac": "\\frac",
    "dbinom": "\\binom",
    "tbinom": "\\binom",
    "varphi": "\\phi ",
    "percent": "%",
    "euro": "€",
    "pounds": "£",
    "quad": " ",
    "qquad": " ",
    "enspace": " ",
    "thinspace": " ",
}
_SILENT = re.compile(
    "left|right|middle|(?:big|Big|bigg|Bigg)[lr]?|(?:display|text|script)style|(?:no)?limits|"
    "boldmath|rm|bf|it"
)
_WORDS = re.compile("text|textrm|textbf|textit|textnormal|mbox|hbox|mathrm")
_DRESS = re.compile("math(?:bf|it|sf|tt|bb|cal)|boldsymbol|bm|operatorname|boxed|fbox|ensuremath")
_PUNCTUATION = {
    "{": "⦃",
    "}": "⦄",
    "%": "%",
    "$": "¤",
    "#": "#",
    "&": "&",
    "_": "_",
    "|": "|",
    ",": " ",
    ";": " ",
    ":": " ",
    "!": "",
    " ": " ",
    "(": "",
    ")": "",
    "[": "",
    "]": "",
}
_TOKEN = re.compile(r"\\([A-Za-z]+)\*?|\\(.)|(\{)|(\})|[^\\{}]+|\\", re.DOTALL)
_RADICAL = re.compile(r"√[ ]*(?:([0-9.]+|[a-z])|(?=[({]))")
_VULGAR = re.compile(r"[0-9]?[ ]*[¼-¾⅐-⅞↉]")
_RAISED = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+")
_DEGREES = re.compile(r"\^[ ]*(?:\{[ ]*°[ ]*\}|°)")
_PHRASE = re.compile(
    r"^(?:(?:so|thus|hence|therefore),? )?(?:the )?(?:final |correct )?"
    r"answers?(?: is| are|:|=)[ :]*",
    re.IGNORECASE,
)
_SPACES = re.compile(r"[\s~]+")
_AROUND = " ,;:*_`"
_REALS = re.compile(
    "\N{DOUBLE-STRUCK CAPITAL R}|" r"\\(?:mathbb|mathbf|Bbb)[ ]*(?:\{R\}|R)|\\Reals|\\R(?![A-Za-z])"
)


def clean(text: str) -> Clean:
    """The text in the one spelling; its time is linear in what is read, which is bounded."""
    if len(text) > MAX_LENGTH:
        return Clean("", False, f"over {MAX_LENGTH} characters")
    spelled, worded, problem = _commands(_unicode(text))
    if problem:
        return Clean("", False, problem)
    spelled = _trimmed(_dollars(_DEGREES.sub("°", spelled)))
    spelled = _trimmed(_PHRASE.sub("", spelled))
    problem = "" if nested(spelled) <= MAX_DEPTH else f"over {MAX_DEPTH} brackets deep"
    return Clean("" if problem else spelled, worded, problem)


def nested(text: str) -> int:
    """How deep brackets stand in brackets."""
    depth = deepest = 0
    for character in text:
        if character in OPEN:
            depth += 1
            deepest = max(deepest, depth)
        elif character in CLOSE:
            depth -= 1
    return deepest


def _unicode(text: str) -> str:
    text = _REALS.sub("(-∞,∞)", text).translate(_CHARACTERS)
    text = _VULGAR.sub(_fraction, text)
    text = _RAISED.sub(lambda found: "^{" + unicodedata.normalize("NFKC", found[0]) + "}", text)
    text = unicodedata.normalize("NFKC", text).translate(_CHARACTERS)
    return _RADICAL.sub(lambda found: f"\\sqrt{{{found[1]}}}" if found[1] else "\\sqrt", text)


def _fraction(found: re.Match[str]) -> str:
    """½ is 1/2 as a whole, behind a root or a power too; and 1½ is 1 1/2."""
    before, sign = found[0][:-1], found[0][-1]
    spelled = unicodedata.normalize("NFKC", sign).replace("\N{FRACTION SLASH}", "/")
    return f"{before} {spelled}" if before.strip() else f"{before}{{{spelled}}}"


def _commands(text: str) -> tuple[str, bool, str]:
    r"""Spell commands; take the dress off: fonts, sizes, boxes, \text."""
    out: list[str] = []
    ends: list[str] = []
    worded, undress = False, False
    for found in _TOKEN.finditer(text):
        name, sign, opened, closed = found.groups()
        if opened:
            out.append("" if undress else "{")
            ends.append("" if undress else "}")
            undress = False
        elif closed:
            if not ends:
                return "", False, "a brace closes that was never opened"
            out.append(ends.pop())
        elif name and (_WORDS.fullmatch(name) or _DRESS.fullmatch(name)):
            words = bool(_WORDS.fullmatch(name))
            worded, undress = worded or words, True
            out.append(" " if words else "")
        else:
            out.append(_spelled(name, sign, found[0]))
            undress = undress and found[0].isspace()
    if ends:
        return "", False, "a brace never closes"
    return "".join(out), worded, ""


def _spelled(name: str | None, sign: str | None, raw: str) -> str:
    if name:
        return "" if _SILENT.fullmatch(name) else _SYMBOLS.get(name, raw)
    if sign:
        return "\\\\" if sign == "\\" else _PUNCTUATION.get(sign, sign)
    return raw


def _dollars(text: str) -> str:
    """A lone $ is money, a pair is LaTeX."""
    if text.count("$") == 1 and re.search(r"\$[ ]*\.?[0-9]", text):
        return text.replace("$", "¤")
    text = text.replace("$", "")
    return text[1:-1] if re.fullmatch(r"¤[^¤]*¤", text) else text


def _trimmed(text: str) -> str:
    text = text.replace("{,}", ",").replace("<=", "≤").replace(">=", "≥").replace("!=", "≠")
    text = _SPACES.sub(" ", text).strip(_AROUND)
    return text if text.endswith("...") else text.rstrip(_AROUND + ".")
