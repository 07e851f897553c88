r"""LaTeX arithmetic → the calculator's language, with places for variables.

In    an expression in the one spelling of latex.py: "\frac{1}{2}x^2", "3\sqrt2"
Out   Expression, whose value at a point the exact calculator computes; None where the
      text has no single reading (1/2x, 3 4) or is not arithmetic
Not   algebra: two expressions are compared by values alone, in points.py

Brackets nest at most latex.MAX_DEPTH deep, and so does the recursion here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from agentrl.exact import Value, calculate
from agentrl.graders.latex import MAX_DEPTH

_PLACE = 0xE000
"""A variable is a private character, so that no name can be taken for the calculator's."""
MAX_NAMES = 12

_NUMBER = re.compile(
    r"[0-9]+(?:,[0-9]{3})+(?![0-9])|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
)
_MIXED = re.compile(
    r"([0-9]+) ?(?:\\frac ?(?:([0-9])([0-9])|\{ ?([0-9]+) ?\}\{ ?([0-9]+) ?\})(?![0-9])"
    r"| ([0-9]+)/([0-9]+))"
)
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_WORD = re.compile(r"sqrt|arcsin|arccos|arctan|sinh|cosh|tanh|sin|cos|tan|exp|abs|log|ln|pi")
_SUBSCRIPT = re.compile(r"_(?:\{([A-Za-z0-9]{1,8})\}|([A-Za-z0-9]))")
_CALLS = {
    **{name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "ln", "abs")},
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan")},
}
_GREEK = re.compile(
    "(?:var)?(?:alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|rho|"
    "sigma|tau|phi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Phi|Psi|Omega|ell)"
)
_ENDS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Expression:
    """Arithmetic that the calculator can read once its variables have values."""

    text: str
    names: tuple[str, ...]

    def at(self, point: Mapping[str, Fraction]) -> Value:
        """The value there. Raises ExactError where there is none."""
        values = {_PLACE + k: f"({point[name]})" for k, name in enumerate(self.names)}
        return calculate(self.text.translate(values))


class _Unread(Exception):
    """The text has no single reading."""


def read_expression(text: str) -> Expression | None:
    """The expression that a text writes, if it has one reading."""
    reader = _Reader(text)
    try:
        written = reader.sum("")
    except _Unread:
        return None
    return Expression(written, tuple(reader.names))


class _Reader:
    """One pass from left to right; a method reads what its name says and returns its spelling."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.depth = 0
        self.names: list[str] = []

    def sum(self, end: str) -> str:
        """Everything up to the closing character, which is passed over."""
        out: list[str] = []
        divided = False
        while True:
            self.space()
            sign = self.peek()
            if sign == end:
                self.place += len(end)
                break
            if sign in ("+", "-", "*", "/") or self.text.startswith("\\cdot", self.place):
                out.append(self.operator())
                divided = sign == "/" or (divided and sign not in ("+", "-"))
            else:
                beside = bool(out) and out[-1] not in ("+", "-", "*", "/")
                if beside and divided:
                    raise _Unread
                out += ["*", self.factor(beside)] if beside else [self.factor(False)]
        if not out:
            raise _Unread
        return "".join(out)

    def peek(self) -> str:
        return self.text[self.place : self.place + 1]

    def space(self) -> None:
        while self.peek() == " ":
            self.place += 1

    def operator(self) -> str:
        if self.peek() == "\\":
            self.place += len("\\cdot")
            return "*"
        self.place += 1
        return self.text[self.place - 1]

    def factor(self, beside: bool) -> str:
        """One value with what is raised above it or stands behind it."""
        if beside and (self.peek().isdigit() or self.peek() == "."):
            raise _Unread
        value = self.atom()
        self.space()
        if self.peek() == "!":
            self.place += 1
            value = f"({value})!"
            self.space()
        if self.peek() == "^":
            self.place += 1
            value = f"(({value})^{self.argument()})"
            self.space()
        # Towers and x^2! have two readings.
        if self.peek() in ("^", "!"):
            raise _Unread
        return value

    def atom(self) -> str:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _Unread
        value = self.value()
        self.depth -= 1
        return value

    def value(self) -> str:
        sign = self.peek()
        if sign in _ENDS:
            self.place += 1
            return f"({self.sum(_ENDS[sign])})"
        if sign == "|":
            self.place += 1
            return f"abs({self.sum('|')})"
        if sign == "\\":
            return self.command()
        if sign.isdigit() or sign == ".":
            return self.number()
        if sign.isascii() and sign.isalpha():
            return self.letters()
        raise _Unread

    def number(self) -> str:
        mixed = _MIXED.match(self.text, self.place)
        if mixed:
            self.place = mixed.end()
            whole, top, bottom = (part for part in mixed.groups() if part)
            if not 0 < int(top) < int(bottom):
                raise _Unread
            return f"({whole}+{top}/{bottom})"
        found = _NUMBER.match(self.text, self.place)
        if found is None:
            raise _Unread
        self.place = found.end()
        return found[0].replace(",", "")

    def letters(self) -> str:
        word = _WORD.match(self.text, self.place)
        if word:
            self.place = word.end()
            return self.called(word[0])
        self.place += 1
        return self.variable(self.text[self.place - 1])

    def command(self) -> str:
        found = _COMMAND.match(self.text, self.place)
        if found is None:
            raise _Unread
        self.place = found.end()
        name = found[1]
        if name == "frac":
            return f"({self.argument(single=True)}/{self.argument(single=True)})"
        if name == "binom":
            return f"comb({self.argument(single=True)},{self.argument(single=True)})"
        return self.variable(name) if _GREEK.fullmatch(name) else self.called(name)

    def variable(self, name: str) -> str:
        subscript = _SUBSCRIPT.match(self.text, self.place)
        if subscript:
            self.place = subscript.end()
            name += "_" + (subscript[1] or subscript[2])
        elif self.peek() == "_":
            raise _Unread
        if name == "e":
            return "e"
        if name not in self.names:
            self.names.append(name)
        if len(self.names) > MAX_NAMES:
            raise _Unread
        return chr(_PLACE + self.names.index(name))

    def called(self, name: str) -> str:
        """A constant, or a function with what it is applied to."""
        if name == "pi":
            return "pi"
        if name == "sqrt":
            return self.root()
        if name == "log":
            return self.logarithm()
        if name not in _CALLS:
            raise _Unread
        power = self.power()
        called = f"{_CALLS[name]}({self.operand()})"
        return f"({called})^{power}" if power else called

    def root(self) -> str:
        self.space()
        if self.peek() != "[":
            return f"sqrt({self.argument()})"
        self.place += 1
        index = self.sum("]")
        return f"({self.argument()})^(1/({index}))"

    def logarithm(self) -> str:
        # Without a base it is to 10 for some and to e for others.
        if self.peek() != "_":
            raise _Unread
        self.place += 1
        base = self.argument()
        return f"log({self.operand()},{base})"

    def power(self) -> str:
        self.space()
        if self.peek() != "^":
            return ""
        self.place += 1
        power = self.argument()
        # sin^-1 is the inverse function for most and 1/sin for some.
        if "-" in power:
            raise _Unread
        return power

    def argument(self, single: bool = False) -> str:
        r"""What a command or ^ takes: a group, a number, a letter, a command.

        Args:
            single: One digit alone, as in \frac12.
        """
        self.space()
        sign = "-" if self.peek() == "-" else ""
        self.place += len(sign)
        if single and self.peek().isdigit():
            self.place += 1
            return self.text[self.place - 1]
        return f"({sign}{self.atom()})"

    def operand(self) -> str:
        """What a function without brackets is applied to: 2x in sin 2x + 1."""
        self.space()
        if self.peek() in ("(", "[", "{"):
            return self.angle(self.atom())
        sign = "-" if self.peek() == "-" else ""
        self.place += len(sign)
        out: list[str] = []
        while not self.stops():
            out.append(self.factor(bool(out)))
        if not out:
            raise _Unread
        return self.angle(sign + "*".join(out))

    def angle(self, value: str) -> str:
        """Degrees, where a function takes them."""
        self.space()
        if self.peek() != "°":
            return value
        self.place += 1
        return f"{value}*pi/180"

    def stops(self) -> bool:
        self.space()
        sign = self.peek()
        if sign == "\\":
            found = _COMMAND.match(self.text, self.place)
            return found is None or not (
                found[1] in ("pi", "frac", "sqrt") or _GREEK.fullmatch(found[1])
            )
        word = _WORD.match(self.text, self.place)
        return not sign.isalnum() or (word is not None and word[0] not in ("pi", "sqrt"))
