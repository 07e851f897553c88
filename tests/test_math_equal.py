import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.errors import SandboxUnavailable
from agentrl.graders import Policy, check_gold, math_equal
from agentrl.graders.symbolic import doubtful, is_small, shared_sandbox
from tests.algebra import Here, Says
from tests.hanging import HANGING

EXACT = Policy(algebra=False)
SUM = "\\sum_{k=1}^{n} k"
"""Beyond exact comparison."""


def exactly(gold, answer, **changes):
    return math_equal(gold, answer, policy=Policy(algebra=False, **changes)).correct


@pytest.mark.parametrize(
    ("option", "value", "gold", "answer"),
    [
        ("percent", "strict", "50", "50\\%"),
        ("units", "required", "10", "10\\text{ cm}"),
        ("names", False, "5", "x=5"),
        ("ordered", True, "1, 2", "2, 1"),
        ("brackets", False, "(1, 2)", "1, 2"),
        ("singletons", False, "1", "\\{1\\}"),
        ("digits", 8, "\\frac{2}{3}", "0.666667"),
    ],
)
def test_each_debatable_point_is_an_option(option, value, gold, answer):
    assert exactly(gold, answer) is True
    assert exactly(gold, answer, **{option: value}) is False


@pytest.mark.parametrize(
    ("gold", "answer", "correct"),
    [
        ("3", "3abc", False),
        ("5", "5 or more", False),
        ("5", "x=6=5", False),
        ("5", "x=2+3=5", True),
        ("10", "10 km/h", True),
        ("1\\text{ m}", "100\\text{ cm}", True),
        ("5\\text{ m}^2", "5\\text{ m}", False),
        ("m \\ge \\sqrt{2}", "[\\sqrt2, \\infty)", True),
        ("[\\sqrt2, \\infty)", "m>=sqrt(2)", True),
        ("1000", "1.000,00", False),
        ("100, 200, 300", "100,200,300", True),
        ("1½", "3/2", True),
        ("x²", "x^2", True),
        ("\\frac{1}{2}", "\\frac12", True),
        ("\\sqrt{x^2}", "x", False),
        ("10^{-9}x", "2 \\cdot 10^{-9}x", False),
        ("(x+1, 2)", "(1+x, 3)", False),
        ("2(2^n-1)", "2^{n+1}-2", True),
        ("1/2x", "x/2", None),
        ("nan", "nan", False),
        ("x^2+C", "x^2", False),
    ],
)
def test_what_exact_comparison_says(gold, answer, correct):
    assert exactly(gold, answer) is correct


@given(st.text() | st.text(alphabet="0123456789x+-*/^\\{}()[],.=<> fracsqt!|&°%"), st.text())
def test_no_text_raises_and_every_verdict_has_a_reason(gold, answer):
    for pair in ((gold, answer), (answer, gold), (gold, gold)):
        verdict = math_equal(*pair, policy=EXACT)
        assert verdict.correct in (True, False, None)
        assert verdict.reason
    assert check_gold(gold, runner=Says("[[true, true, true]]")) != ""


NUMBERS = st.fractions(-1000, 1000, max_denominator=200)
SPELLINGS = st.sampled_from(
    [
        "{0}/{1}",
        "\\frac{{{0}}}{{{1}}}",
        "\\dfrac{{2 \\cdot {0}}}{{2 \\cdot {1}}}",
        "({0})/({1})",
        "{0} \\cdot \\frac1{{{1}}}",
    ]
)
SPELLED = st.builds(lambda q, form: (q, form.format(*q.as_integer_ratio())), NUMBERS, SPELLINGS)
WRITTEN = SPELLED.map(lambda pair: pair[1])
SHAPES = st.sampled_from(["({},{})", "\\{{{},{}\\}}", "[{},{})", "{}; {}", "{}x+{}", "x={}+{}"])


@given(SHAPES, WRITTEN, WRITTEN, WRITTEN, WRITTEN)
def test_answers_of_one_kind_are_equal_both_ways_and_to_themselves(shape, a, b, c, d):
    one, other = shape.format(a, b), shape.format(c, d)
    assert exactly(one, one) is True
    assert exactly(one, other) is exactly(other, one)


@given(SPELLED, SPELLED)
def test_numbers_are_equal_if_their_values_are(one, other):
    (p, gold), (q, answer) = one, other
    assert exactly(gold, answer) is (p == q)


def test_only_a_well_ended_child_that_answers_well_is_believed():
    yes = "noise\n[[true, true, true]]\n"
    assert math_equal(SUM, "S_n", runner=Says(yes)).correct is True
    for said in (
        Says(yes, status="timeout_cpu"),
        Says(yes, status="killed"),
        Says(""),
        Says("[[true, true, 1]]"),
        Says("[true]"),
        Says("[]"),
        Says('{"correct": true}'),
    ):
        verdict = math_equal(SUM, "S_n", runner=said)
        assert verdict.correct is None
        assert verdict.reason.startswith("undecided")


def test_texts_reach_the_child_as_data_and_the_limits_are_the_callers():
    said = Says("[[true, true, false]]")
    hostile = '\\sum "]\')\n__import__("os").system("true")'
    math_equal(SUM, hostile, runner=said, timeout=0.5)
    ((code, limits),) = said.asked
    assert (limits.cpu, limits.wall) == (0.5, 0.5)
    (line,) = [line for line in code.splitlines() if line.startswith("PAIRS = ")]
    (pair,) = json.loads(json.loads(line.removeprefix("PAIRS = ")))
    assert pair[0] == SUM


def test_an_answer_that_nobody_can_read_is_wrong_and_such_a_gold_is_undecided():
    assert math_equal("8", "8?", runner=Says("[[true, false, false]]")).correct is False
    assert math_equal("8?", "8", runner=Says("[[false, true, false]]")).correct is None


def test_without_a_sandbox_algebra_is_undecided_and_the_rest_is_graded():
    class Nowhere:
        def run(self, code, *, limits=None):
            raise SandboxUnavailable("sandbox: it needs Linux.")

    verdict = math_equal(SUM, "S_n", runner=Nowhere())
    assert verdict.correct is None
    assert "needs Linux" in verdict.reason
    assert math_equal("1/2", "0.5", runner=Nowhere()).correct is True


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("5", "5=5"),
        ("5", "1 4"),
        ("(1,2)", "⦃1,2⦄"),
        ("2,2,3", "2,3"),
        ("nan", "nan"),
        ("\\frac{x}{10^{-9}}", "\\frac{2x}{10^{-9}}"),
    ],
)
def test_a_yes_that_may_be_a_known_mistake_is_none(gold, answer):
    assert doubtful(gold, answer)


@pytest.mark.parametrize(
    "text", ["2^{2^{2}}", "x^y^z", "101!", "(9!)!", "1" * 51, "x+" * 150 + "!"]
)
def test_what_could_take_long_is_not_asked(text):
    assert not is_small(text)
    said = Says("[[true, true, true]]")
    assert math_equal(SUM, text, runner=said).correct is None
    assert said.asked == []


def test_the_whole_is_undecided_only_for_its_undecided_parts():
    here = Here()
    assert math_equal(f"({SUM}, 2)", "(n(n+1)/2, 2)", runner=here).correct is True
    assert math_equal(f"({SUM}, 2)", "(n(n+1)/2, 3)", runner=Says("")).correct is False
    assert math_equal(f"{SUM}, 2", "2, \\frac{n^2+n}{2}", runner=here).correct is True
    assert math_equal("e^{i\\pi}", "-1", runner=here).correct is True


@pytest.mark.parametrize(
    ("gold", "problem"),
    [
        ("", "empty"),
        ("nan", "no value"),
        ("1/0", "no value"),
        ("{1", "never closes"),
        ("1" * 1001, "over 1000"),
        ("3 \\ast\\ast\\ast 4", "no mathematics"),
    ],
)
def test_a_gold_that_cannot_be_graded_is_found_when_data_are_loaded(gold, problem):
    assert problem in check_gold(gold, runner=Says("[[false, false, false]]"))


@pytest.fixture(scope="module")
def sandbox():
    try:
        shared_sandbox().run("pass")
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("sandbox")
def test_hostile_answers_end_eight_at_once_and_the_next_one_is_graded():
    def graded(pair):
        assert threading.current_thread() is not threading.main_thread()
        return math_equal(*pair, timeout=1.0)

    hostile = [("1/9", answer) for answer in HANGING.values()]
    with ThreadPoolExecutor(8) as pool:
        verdicts = list(pool.map(graded, hostile))
        after = pool.submit(graded, ("1/2", "0.5")).result(timeout=2.0)
    assert all(verdict.correct is not True for verdict in verdicts)
    assert max(verdict.seconds for verdict in verdicts) < 3.0
    assert after.correct is True


@pytest.mark.usefixtures("sandbox")
def test_algebra_decides_in_the_sandbox():
    assert math_equal(SUM, "n(n+1)/2", timeout=10.0).correct is True
    assert math_equal(SUM, "n(n+2)/2", timeout=10.0).correct is False
