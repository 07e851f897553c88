"""The shape of an answer: a number, a word, several in an order or in none, a relation.

In    nothing: this is the record between reading and comparing
Out   Form, a tree of at most latex.MAX_DEPTH levels
Not   meaning: that {1} may stand for 1 is a policy, applied where forms are compared
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from agentrl.exact import Value
from agentrl.graders.expression import Expression
from agentrl.graders.units import NONE, Unit


class Kind(Enum):
    """What an answer is."""

    NUMBER = "number"
    EXPRESSION = "expression"
    WORDS = "words"
    LIST = "list"
    """Several without brackets."""
    TUPLE = "tuple"
    """Several in ( ) or [ ], an interval among them; `ends` tells the brackets."""
    SET = "set"
    UNION = "union"
    """Of intervals; a union of sets is a set."""
    RELATION = "relation"
    MATRIX = "matrix"
    """Its parts are rows, each a list."""
    NOTHING = "nothing"
    """nan, 1/0, 3 4: equal to no answer at all."""
    OPAQUE = "opaque"
    """Not understood here."""


@dataclass(frozen=True, slots=True)
class Form:
    """An answer, read."""

    kind: Kind
    text: str
    """In the one spelling, as computer algebra would be given it."""
    value: Value | None = None
    unit: Unit = NONE
    expression: Expression | None = None
    parts: tuple[Form, ...] = field(default=())
    ends: str = ""
    """Both brackets of a tuple; the sign of a relation."""
    name: str = ""
    """What it is said to be the value of: x in x = 5, in x < 5 and in x ∈ (0, 1)."""

    def called(self, name: str) -> Form:
        """The same, under a name."""
        return replace(self, name=name)
