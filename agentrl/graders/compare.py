"""Form against form: the same answer, another one, or not decided.

In    the forms of a gold answer and of an answer; the policy; what algebra has said so far
Out   Found: True, False or None; the pairs of small parts that only algebra could decide
Not   symmetric: the gold says how many digits are enough and which unit is meant

A pair of parts that is undecided leaves the whole undecided only if nothing else is wrong:
(x + 1, 2) against (1 + x, 3) is wrong whatever algebra would say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from agentrl.exact import Value
from agentrl.graders.expression import Expression, read_expression
from agentrl.graders.form import Form, Kind
from agentrl.graders.points import proportional, same_at_points
from agentrl.graders.units import NONE, PERCENT
from agentrl.graders.values import rounds_to, same_value
from agentrl.graders.verdict import Policy

Pair = tuple[str, str]
Outcome = bool | None

MAX_MATCHED = 12
"""Parts of a list without order up to which undecided pairs are matched."""

_SEVERAL = (Kind.LIST, Kind.SET, Kind.TUPLE, Kind.UNION, Kind.MATRIX)
_ALGEBRA = (Kind.EXPRESSION, Kind.OPAQUE)
_SINGLE = (Kind.NUMBER, Kind.WORDS, *_ALGEBRA)


@dataclass(frozen=True, slots=True)
class Found:
    """What a comparison came to."""

    outcome: Outcome
    pairs: tuple[Pair, ...]
    """Parts of gold and answer that nobody has decided."""
    why: str = ""
    """Why an answer is wrong that was not compared to its end."""


def compare(
    gold: Form, answer: Form, policy: Policy, known: Mapping[Pair, Outcome] | None = None
) -> Found:
    """Whether the answer is the gold, and the pairs of parts that nobody has decided.

    Args:
        gold: The right answer.
        answer: What is held against it.
        policy: What to overlook.
        known: What algebra said of pairs that were undecided before.
    """
    comparison = _Comparison(policy, known or {})
    outcome = comparison.same(gold, answer)
    return Found(outcome, tuple(dict.fromkeys(comparison.open_pairs)), comparison.why)


class _Comparison:
    """One comparison, from the whole down to its parts."""

    def __init__(self, policy: Policy, known: Mapping[Pair, Outcome]) -> None:
        self.policy = policy
        self.known = known
        self.open_pairs: list[Pair] = []
        self.why = ""

    def same(self, gold: Form, answer: Form) -> Outcome:
        """Whether the answer is the gold."""
        if Kind.NOTHING in (gold.kind, answer.kind):
            return False
        if Kind.RELATION in (gold.kind, answer.kind):
            gold, answer = _as_equation(gold), _as_equation(answer)
        if gold.name or answer.name:
            named = self.names(gold, answer)
            if named is not None:
                return named
            gold, answer = gold.called(""), answer.called("")
        if gold.kind is answer.kind:
            return _spelled_alike(gold, answer) or _ALIKE[gold.kind](self, gold, answer)
        return self.unlike(gold, answer)

    def names(self, gold: Form, answer: Form) -> Outcome:
        """False where the names forbid it, None where the values decide."""
        if gold.name and answer.name:
            return None if gold.name == answer.name else False
        if not self.policy.names:
            return False
        # In x + 1 = x the x is no name for the gold.
        used = gold.expression.names if gold.expression else ()
        return False if answer.name in used else None

    def unlike(self, gold: Form, answer: Form) -> Outcome:
        """Two forms of different kinds."""
        kinds = {gold.kind, answer.kind}
        if kinds == {Kind.LIST, Kind.SET}:
            return self.unordered(gold, answer)
        if kinds == {Kind.LIST, Kind.TUPLE}:
            return self.bare(gold, answer)
        if kinds == {Kind.MATRIX, Kind.TUPLE}:
            return self.vector(gold, answer)
        if kinds <= {*_SINGLE}:
            return self.singles(gold, answer)
        if Kind.OPAQUE in kinds and Kind.RELATION not in kinds:
            return self.ask(gold, answer)
        if Kind.RELATION in kinds and kinds & {Kind.TUPLE, Kind.UNION}:
            return self.ask(gold, answer)
        return self.one_of_one(gold, answer)

    def one_of_one(self, gold: Form, answer: Form) -> Outcome:
        """{1} for 1, and (1,000) for 1000; otherwise one is no many."""
        many, one = (gold, answer) if gold.kind in _SEVERAL else (answer, gold)
        if one.kind is Kind.NUMBER and many.kind is Kind.TUPLE and many.ends == "()":
            grouped = [part.text for part in many.parts]
            return _grouped(grouped, one.value)
        if one.kind is Kind.NUMBER and "," in one.text and many.kind is Kind.LIST:
            return self.regrouped(gold, answer)
        if many.kind is Kind.SET and len(many.parts) == 1 and self.policy.singletons:
            part = many.parts[0]
            return self.same(part, answer) if many is gold else self.same(gold, part)
        return False

    def regrouped(self, gold: Form, answer: Form) -> Outcome:
        """100,200 is a list where the gold is one."""
        if answer.kind is not Kind.NUMBER:
            return False
        pieces = answer.text.split(",")
        return len(pieces) == len(gold.parts) and all(
            part.text == piece for part, piece in zip(gold.parts, pieces, strict=True)
        )

    def singles(self, gold: Form, answer: Form) -> Outcome:
        """Of number, words, expression and what was not understood, two different ones."""
        if Kind.OPAQUE in (gold.kind, answer.kind):
            other = answer if gold.kind is Kind.OPAQUE else gold
            return False if other.kind is Kind.WORDS else self.ask(gold, answer)
        if Kind.WORDS in (gold.kind, answer.kind):
            return self.based(gold, answer)
        return self.expressions(gold, answer)

    def based(self, gold: Form, answer: Form) -> Outcome:
        """101 for 101 in base 2, but never its value; yes for yes; and no word is a number."""
        words, other = (gold, answer) if gold.kind is Kind.WORDS else (answer, gold)
        if words.unit.measures.startswith("base"):
            # Of a gold without a base nobody knows that it is in one: 101 is not 101 in base 2.
            same = words is gold and words.text == other.text
            return same and self.policy.units == "optional"
        one, two = _words_of(gold.text), _words_of(answer.text)
        # A gold that is one letter may be a variable: r is not R.
        variable = len(one) == 1 and words is answer
        return one == two if variable else one.casefold() == two.casefold()

    def numbers(self, gold: Form, answer: Form) -> Outcome:
        one, other = gold.value, answer.value
        if one is None or other is None or self.units_conflict(gold, answer):
            return False
        if PERCENT in (gold.unit, answer.unit) and gold.unit != answer.unit:
            return self.percent(gold, answer, one, other)
        if NONE not in (gold.unit, answer.unit):
            one, other = one * gold.unit.size, other * answer.unit.size  # type: ignore[operator]
        return self.values(one, answer.text, other)

    def units_conflict(self, gold: Form, answer: Form) -> bool:
        one, other = gold.unit.measures, answer.unit.measures
        if "percent" in (one, other):
            return bool(one and other and one != other)
        return one != other and bool((one and other) or self.policy.units == "required")

    def percent(self, gold: Form, answer: Form, one: Value, other: Value) -> Outcome:
        """One of the two is in percent."""
        share, plain = (one, other) if gold.unit == PERCENT else (other, one)
        readings = [same_value(share / 100, plain)]
        if self.policy.percent == "either":
            readings.append(same_value(share, plain))
        return _any(readings)

    def values(self, gold: Value, text: str, answer: Value) -> Outcome:
        for value in (gold, answer):
            if isinstance(value, Decimal) and value.is_infinite():
                return gold == answer
        same = same_value(gold, answer)
        if same:
            return True
        return rounds_to(gold, text, answer, self.policy.digits) or same

    def words(self, gold: Form, answer: Form) -> Outcome:
        if self.units_conflict(gold, answer):
            return False
        one, other = _words_of(gold.text), _words_of(answer.text)
        return one.casefold() == other.casefold()

    def expressions(self, gold: Form, answer: Form) -> Outcome:
        one, other = _expression(gold), _expression(answer)
        same = None if one is None or other is None else same_at_points(one, other)
        return self.ask(gold, answer) if same is None else same

    def ordered(self, gold: Form, answer: Form) -> Outcome:
        """Tuples, vectors, rows."""
        if gold.ends != answer.ends or len(gold.parts) != len(answer.parts):
            return False
        return self.each(gold.parts, answer.parts)

    def lists(self, gold: Form, answer: Form) -> Outcome:
        if "..." in answer.text and "..." not in gold.text:
            self.why = "dots stand in the answer for parts that the gold has"
            return False
        if "..." in gold.text:
            ends = [(form.parts[0], form.parts[-1]) for form in (gold, answer)]
            return None if self.each(*ends) is not False else False
        if len(gold.parts) != len(answer.parts):
            return False
        if self.policy.ordered:
            return self.each(gold.parts, answer.parts)
        return self.matched(gold.parts, answer.parts)

    def unordered(self, gold: Form, answer: Form) -> Outcome:
        """Sets, or a set and a list: every element has its like, and none is told twice."""
        for form in (gold, answer):
            if form.kind is Kind.LIST and len(_distinct(form.parts)) < len(form.parts):
                return False
        return self.matched(_distinct(gold.parts), _distinct(answer.parts))

    def bare(self, gold: Form, answer: Form) -> Outcome:
        """1, 2 for (1, 2), and x = 1, y = 2 for it."""
        bracketed = gold if gold.kind is Kind.TUPLE else answer
        brackets = bracketed.ends == "()" or (bracketed.ends == "[]" and len(gold.parts) > 2)
        if not self.policy.brackets or not brackets or len(gold.parts) != len(answer.parts):
            return False
        pairs = [[part.called("") for part in form.parts] for form in (gold, answer)]
        return self.each(*pairs)

    def vector(self, gold: Form, answer: Form) -> Outcome:
        """A row or a column for (1, 2)."""
        rows, flat = (gold, answer) if gold.kind is Kind.MATRIX else (answer, gold)
        lengths = {len(row.parts) for row in rows.parts}
        cells = [cell for row in rows.parts for cell in row.parts]
        if not self.policy.brackets or (len(rows.parts) > 1 and lengths != {1}):
            return False
        if len(cells) != len(flat.parts):
            return False
        return self.each(cells, flat.parts) if rows is gold else self.each(flat.parts, cells)

    def matrices(self, gold: Form, answer: Form) -> Outcome:
        if [len(row.parts) for row in gold.parts] != [len(row.parts) for row in answer.parts]:
            return False
        rows = zip(gold.parts, answer.parts, strict=True)
        return _all(self.each(one.parts, other.parts) for one, other in rows)

    def relations(self, gold: Form, answer: Form) -> Outcome:
        if gold.ends != answer.ends or len(gold.ends) > 1:
            return self.ask(gold, answer) if len(gold.ends) == len(answer.ends) == 1 else False
        sides = [_expression(side) for side in (*gold.parts, *answer.parts)]
        known = [side for side in sides if side is not None]
        if len(known) < 4:
            return self.ask(gold, answer)
        if not (known[0].names or known[1].names) or not (known[2].names or known[3].names):
            return False
        same = same_at_points(known[0], known[2]), same_at_points(known[1], known[3])
        if same == (True, True):
            return True
        if gold.ends == "=" and proportional((known[0], known[1]), (known[2], known[3])):
            return True
        return self.ask(gold, answer)

    def ask(self, gold: Form, answer: Form) -> Outcome:
        """What algebra said of the pair; if it was not asked yet, it should be."""
        pair = gold.text, answer.text
        if pair not in self.known:
            self.open_pairs.append(pair)
        return self.known.get(pair)

    def each(self, golds: Sequence[Form], answers: Sequence[Form]) -> Outcome:
        return _all(self.same(g, a) for g, a in zip(golds, answers, strict=True))

    def matched(self, golds: Sequence[Form], answers: Sequence[Form]) -> Outcome:
        """Whether each gold has an answer of its own, in whatever order."""
        if len(golds) != len(answers):
            return False
        left, open_golds = list(answers), []
        for gold in golds:
            found = next((a for a in left if _surely(gold, a)), None)
            left.remove(found) if found is not None else open_golds.append(gold)
        if len(left) > MAX_MATCHED and many_unordered(open_golds):
            return None
        if len(left) > MAX_MATCHED and any(f.kind is not Kind.NUMBER for f in left):
            self.why = f"over {MAX_MATCHED} parts of the answer are no plain numbers"
            return False
        return self.remaining(open_golds, left)

    def remaining(self, golds: Sequence[Form], answers: Sequence[Form]) -> Outcome:
        left, undecided = list(answers), False
        for gold in golds:
            outcomes = [self.same(gold, answer) for answer in left]
            if True in outcomes:
                left.pop(outcomes.index(True))
            elif None in outcomes:
                undecided = True
            else:
                return False
        return None if undecided else True


_ALIKE = {
    Kind.NUMBER: _Comparison.numbers,
    Kind.EXPRESSION: _Comparison.expressions,
    Kind.WORDS: _Comparison.words,
    Kind.LIST: _Comparison.lists,
    Kind.TUPLE: _Comparison.ordered,
    Kind.SET: _Comparison.unordered,
    Kind.UNION: _Comparison.unordered,
    Kind.RELATION: _Comparison.relations,
    Kind.MATRIX: _Comparison.matrices,
    Kind.OPAQUE: _Comparison.ask,
}


def many_unordered(parts: Sequence[Form]) -> bool:
    """Whether parts without order are more than can be matched, whatever the answer is."""
    return sum(part.kind is not Kind.NUMBER for part in parts) > MAX_MATCHED


def _all(outcomes: Iterable[Outcome]) -> Outcome:
    """False if one is; else None if one is."""
    undecided = False
    for outcome in outcomes:
        if outcome is False:
            return False
        undecided = undecided or outcome is None
    return None if undecided else True


def _any(outcomes: Sequence[Outcome]) -> Outcome:
    if True in outcomes:
        return True
    return None if None in outcomes else False


def _spelled_alike(gold: Form, answer: Form) -> Outcome:
    """True for the same spelling; not for numbers, which have units."""
    if gold.kind in (Kind.NUMBER, Kind.WORDS) or not gold.text:
        return None
    same = gold.text.replace(" ", "") == answer.text.replace(" ", "")
    return True if same and gold.ends == answer.ends else None


def _as_equation(form: Form) -> Form:
    """Y = 3x - 2 as a relation of two sides, for 3x - y = 2."""
    if not form.name or form.kind not in (Kind.NUMBER, Kind.EXPRESSION):
        return form
    name = read_expression(form.name)
    if name is None:
        return form
    left = Form(Kind.EXPRESSION, form.name, expression=name)
    sides = left, form.called("")
    return Form(Kind.RELATION, f"{form.name}={form.text}", parts=sides, ends="=")


def _words_of(text: str) -> str:
    words = " ".join(text.replace("-", " ").split())
    return words.strip(".")


def _grouped(pieces: Sequence[str], value: Value | None) -> bool:
    """(1,000) for 1000."""
    digits = all(piece.isdigit() and piece.isascii() for piece in pieces)
    if not digits or any(len(piece) != 3 for piece in pieces[1:]) or len(pieces[0]) > 3:
        return False
    return len(pieces) > 1 and len(pieces) < 8 and value == int("".join(pieces))


def _expression(form: Form) -> Expression | None:
    return form.expression


def _distinct(parts: Sequence[Form]) -> list[Form]:
    """Without what is surely told twice."""
    found: list[Form] = []
    for part in parts:
        if not any(_surely(part, other) for other in found):
            found.append(part)
    return found


def _surely(one: Form, other: Form) -> bool:
    if (
        one.kind is Kind.NUMBER
        and other.kind is Kind.NUMBER
        and None not in (one.value, other.value)
    ):
        return one.value == other.value and one.unit == other.unit
    return one.kind is other.kind and one.text == other.text and one.ends == other.ends
