"""The calculator's promises on the tables that the benchmark gives to other libraries too."""

import ast
import random
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.errors import ToolError
from agentrl.exact import exact_value
from agentrl_tools.calculator import evaluate
from benchmarks.expressions import (
    CANARY,
    EXECUTION,
    ORDINARY,
    PYTHONIC,
    SEMANTICS,
    TOO_LARGE,
)

MOST = 0.1
"""Seconds of processor time that any expression may take."""


def answer(text):
    """What the policy reads; anything but an answer or a ToolError passes and fails the test."""
    try:
        return evaluate(text)
    except ToolError as error:
        return f"refused: {error}"


def cost(text):
    """Seconds of processor time: the least of up to three, since neighbours can only add."""
    least = float("inf")
    for _ in range(3):
        begun = time.process_time()
        answer(text)
        least = min(least, time.process_time() - begun)
        if least < MOST:
            break
    return least


def test_the_tables_are_as_long_as_they_claim():
    assert len(set(EXECUTION)) >= 40
    assert len(set(TOO_LARGE)) >= 100
    assert len(dict(SEMANTICS)) >= 70


@pytest.mark.parametrize("text", EXECUTION, ids=range(len(EXECUTION)))
def test_a_try_to_run_code_is_refused_and_runs_nothing(tmp_path, text):
    canary = tmp_path / "canary"
    text = text.replace(CANARY, str(canary))
    assert answer(text).startswith("refused: calculator: ")
    assert cost(text) < MOST
    assert not canary.exists()


def test_the_canary_sings_where_such_a_text_is_run(tmp_path):
    canary = tmp_path / "canary"
    eval(EXECUTION[0].replace(CANARY, str(canary))).close()
    assert canary.exists()


@pytest.mark.parametrize("text", TOO_LARGE, ids=range(len(TOO_LARGE)))
def test_a_try_to_hang_costs_little_and_says_little(text):
    assert cost(text) < MOST
    assert len(answer(text)) < 500


@pytest.mark.parametrize(("text", "value"), SEMANTICS)
def test_a_fine_point_has_the_meaning_that_people_give_it(text, value):
    said = answer(text)
    if value is None:
        assert said.startswith("refused: calculator: ")
    else:
        assert said.removeprefix("~") == value
    assert cost(text) < MOST


@pytest.mark.parametrize("text", PYTHONIC)
def test_what_is_python_and_no_arithmetic_is_refused(text):
    assert answer(text).startswith("refused: calculator: ")


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_expressions_have_an_answer(text):
    assert not answer(text).startswith("refused")


# An evaluator of its own: Python's grammar over fractions.


class Unfit(Exception):
    """Python and the calculator need not agree here: no value, or none that is small and exact."""


def by_python(text):
    return valued(ast.parse(text, mode="eval").body, text)


def valued(node, text):
    if isinstance(node, ast.Constant):
        return Fraction(ast.get_source_segment(text, node))
    if isinstance(node, ast.UnaryOp):
        value = valued(node.operand, text)
        return -value if isinstance(node.op, ast.USub) else value
    left, right = valued(node.left, text), valued(node.right, text)
    if isinstance(node.op, ast.Pow):
        return raised(left, right)
    if right == 0 and isinstance(node.op, ast.Div | ast.Mod):
        raise Unfit
    return {
        ast.Add: lambda: left + right,
        ast.Sub: lambda: left - right,
        ast.Mult: lambda: left * right,
        ast.Div: lambda: left / right,
        ast.Mod: lambda: left - right * (left // right),
    }[type(node.op)]()


def raised(base, exponent):
    if exponent.denominator != 1 or abs(exponent) > 40 or (base == 0 and exponent < 0):
        raise Unfit
    if max(abs(base.numerator), base.denominator).bit_length() * abs(exponent) > 4000:
        raise Unfit
    return base**exponent.numerator


def number(rng):
    whole = str(rng.choice((rng.randrange(10), rng.randrange(1000))))
    return whole + rng.choice(("", "", "", f".{rng.randrange(100):02d}"))


def small_expression(rng, depth=0):
    """Text alone: what binds to what is left to the two grammars."""
    parts = []
    for place in range(rng.randrange(1, 5)):
        if place:
            parts.append(rng.choice((*"+-*/", "**", " + ", " - ", " * ", " / ", " ** ", "%")))
        # Behind % a sign would make it a percent.
        if parts[-1:] != ["%"]:
            parts.append(rng.choice(("", "", "", "-", "+")))
        inner = depth < 2 and rng.random() < 0.3
        parts.append(f"({small_expression(rng, depth + 1)})" if inner else number(rng))
    return "".join(parts)


def test_ten_thousand_small_expressions_equal_pythons_grammar_over_fractions():
    rng = random.Random(5)
    seen = set()
    while len(seen) < 10_000:
        text = small_expression(rng)
        try:
            value = by_python(text)
        except (Unfit, SyntaxError):  # Python has no 007
            continue
        assert exact_value(text) == value, text
        seen.add(text)
    assert sum("**" in text for text in seen) > 1000
    assert sum("%" in text for text in seen) > 1000


PIECES = st.sampled_from(
    [*"0123456789.,()+-*/^%!", "**", "√(", "²", "pi", "1e4000", "9^999", "sin(", "log(", "1/7",
     "2^9999", "comb(6000,3000)", "gcd(", "lcm(", "1700!", "tanh(9)", "^(1/63)", "round(", "-("]
)  # fmt: skip


@settings(max_examples=1000)
@given(st.lists(PIECES, max_size=300).map("".join))
def test_any_row_of_signs_costs_little(text):
    assert cost(text) < MOST
