"""Tokens → program: the order of operations, as a flat list of steps.

In    the tokens of one expression
Out   steps in the order a stack machine runs them; ExactError where the text has no
      meaning or more than one
Not   a recursive parser: brackets wait on a list, so no nesting deepens the call stack
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentrl.errors import suggestion
from agentrl.exact.budget import MAX_TOWER, ExactError, located
from agentrl.exact.numbers import literal
from agentrl.exact.operations import FUNCTIONS
from agentrl.exact.real import CONSTANTS, Value
from agentrl.exact.tokens import Kind, Token


@dataclass(frozen=True, slots=True)
class Step:
    """One move of the stack machine: put a value there, or operate on the last ones."""

    name: str
    """The operation, or "value"."""
    count: int
    """How many values the operation takes."""
    at: int
    """Place in the text, counted from 1."""
    value: Value | None = None
    """What is put on the stack by "value"."""


@dataclass(slots=True)
class _Waiting:
    """An operation or bracket that still needs what stands behind it."""

    name: str
    at: int
    rank: int
    """How tightly it binds; 0 for a bracket, which nothing closes but its end."""
    count: int = 2
    """Values taken; for the bracket of a call, arguments seen so far."""


_RANKS = {"+": 1, "-": 1, "*": 2, "/": 2, "mod": 2, "^": 4}
_PRODUCT, _MINUS, _ROOT = 2, 3, 5
_OPENERS = ("(", "√")
_RAISED = ("²", "³")
_POSTFIX = {"!": "factorial", "²": "squared", "³": "cubed", "percent": "percent"}


def compile_tokens(tokens: Sequence[Token]) -> list[Step]:
    """Order the tokens of an expression into steps."""
    return _Compiler(tokens).run()


class _Compiler:
    """Dijkstra's two stacks: steps that are settled, and operations that wait."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self.steps: list[Step] = []
        self.waiting: list[_Waiting] = []
        self.wants_operand = True

    def run(self) -> list[Step]:
        while self.here.kind is not Kind.END:
            if self.wants_operand:
                self.operand(self.here)
            else:
                self.operator(self.here)
        if self.wants_operand:
            raise self.missing(self.here)
        self.settle(1)
        if self.waiting:
            raise _error(self.waiting[-1].at, "this bracket is never closed. Add a ')'.")
        return self.steps

    @property
    def here(self) -> Token:
        return self.tokens[self.place]

    def operand(self, token: Token) -> None:
        """Read what may stand where a value is due."""
        self.place += 1
        if token.kind is Kind.NUMBER:
            with located(token.at):
                self.put(literal(token.text), token.at)
        elif token.text in CONSTANTS:
            self.put(CONSTANTS[token.text], token.at)
        elif token.kind is Kind.NAME:
            self.call(token)
        elif token.text == "(":
            self.waiting.append(_Waiting("(", token.at, 0, 1))
        elif token.text == "√":
            self.root(token)
        elif token.text == "-":
            self.waiting.append(_Waiting("negate", token.at, _MINUS, 1))
        elif token.text != "+":
            raise self.missing(token)

    def put(self, value: Value, at: int) -> None:
        self.steps.append(Step("value", 0, at, value))
        self.ended()

    def ended(self) -> None:
        """A value is complete: √ takes only what stands right behind it."""
        self.wants_operand = False
        self.settle(_ROOT)

    def call(self, token: Token) -> None:
        if token.text not in FUNCTIONS:
            known = [*FUNCTIONS, *CONSTANTS]
            hint = suggestion(token.text, known, f"Known names: {', '.join(known)}.")
            raise _error(token.at, f"unknown name {_short(token.text)!r}. {hint}")
        if self.here.text != "(":
            raise _error(token.at, f"{token.text} needs brackets: write {token.text}(...).")
        self.place += 1
        self.waiting.append(_Waiting(token.text, token.at, 0, 1))

    def root(self, token: Token) -> None:
        following = self.here
        if following.kind in (Kind.SIGN, Kind.END) and following.text != "(":
            raise _error(token.at, "√ needs a number or a bracket right behind it: √(...).")
        self.waiting.append(_Waiting("sqrt", token.at, _ROOT, 1))

    def operator(self, token: Token) -> None:
        """Read what may stand behind a value."""
        if token.kind is Kind.NUMBER:
            raise _ambiguous(token, "two numbers side by side", "Write the operator between them")
        if token.kind is Kind.NAME or token.text in _OPENERS:
            self.times(token)
            return
        self.place += 1
        name = self.percent_or_mod() if token.text == "%" else token.text
        if name in _POSTFIX:
            self.postfix(name, token)
        elif name in _RANKS:
            self.binary(name, token)
        elif name == ",":
            self.comma(token)
        else:
            self.close(token)

    def percent_or_mod(self) -> str:
        following = self.here
        is_operand = following.kind in (Kind.NUMBER, Kind.NAME) or following.text in _OPENERS
        return "mod" if is_operand else "percent"

    def postfix(self, name: str, token: Token) -> None:
        before = self.tokens[self.place - 2].text
        if name == before == "!":
            raise _ambiguous(token, "a double factorial", "Write (n!)! or the product")
        if name in _RAISED and before in _RAISED:
            raise _ambiguous(token, "two raised digits side by side", "Write ^ and brackets")
        self.steps.append(Step(_POSTFIX[name], 1, token.at))

    def times(self, token: Token) -> None:
        """Read 2(3+4) or 2pi as a product, unless it could be read in two ways."""
        before = self.tokens[self.place - 1]
        for waiting in self.until(_PRODUCT):
            if waiting.name in ("/", "mod"):
                raise _ambiguous(token, "a product without * after a division", "Write * and ( )")
            if waiting.name == "^" and before.text != ")":
                raise _ambiguous(token, "a product without * after a power", "Write * and ( )")
        self.binary("*", token)

    def binary(self, name: str, token: Token) -> None:
        rank = _RANKS[name]
        # ^ groups from the right: an earlier ^ waits for the later one.
        self.settle(rank + (name == "^"))
        if name == "^" and sum(waiting.name == "^" for waiting in self.until(1)) >= MAX_TOWER:
            raise _error(token.at, f"a tower of more than {MAX_TOWER} powers. Use a lower one.")
        self.waiting.append(_Waiting(name, token.at, rank))
        self.wants_operand = True

    def comma(self, token: Token) -> None:
        self.settle(1)
        if not self.waiting or self.waiting[-1].name == "(":
            raise _error(
                token.at,
                "a comma may only separate the arguments of a function, or thousands "
                "as in 1,234 where no function is called. Remove it.",
            )
        self.waiting[-1].count += 1
        self.wants_operand = True

    def close(self, token: Token) -> None:
        self.settle(1)
        if not self.waiting:
            raise _error(token.at, "this ')' closes no bracket. Remove it or add a '('.")
        bracket = self.waiting.pop()
        if bracket.name != "(":
            function = FUNCTIONS[bracket.name]
            if not function.least <= bracket.count <= function.most:
                raise _error(bracket.at, f"{bracket.name} takes {function.takes}.")
            self.steps.append(Step(bracket.name, bracket.count, bracket.at))
        self.ended()

    def until(self, rank: int) -> list[_Waiting]:
        """Operations that wait since the last bracket and bind at least so tightly."""
        found = []
        for waiting in reversed(self.waiting):
            if waiting.rank < rank:
                break
            found.append(waiting)
        return found

    def settle(self, rank: int) -> None:
        """Turn waiting operations of at least this rank into steps."""
        for waiting in self.until(rank):
            self.steps.append(Step(waiting.name, waiting.count, waiting.at))
            self.waiting.pop()

    def missing(self, token: Token) -> ExactError:
        found = "the expression ends" if token.kind is Kind.END else f"{token.text!r} stands"
        return _error(token.at, f"{found} where a number is due. Complete or remove it.")


def _ambiguous(token: Token, what: str, instead: str) -> ExactError:
    return _error(token.at, f"ambiguous: {what} can be read in two ways. {instead}.")


def _error(at: int, text: str) -> ExactError:
    return ExactError(f"character {at}: {text}")


def _short(text: str) -> str:
    return text if len(text) <= 30 else text[:30] + "..."
