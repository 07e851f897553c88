import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.errors import SandboxUnavailable
from agentrl.graders import Policy, check_gold, math_equal
from agentrl.graders.symbolic import doubtful, is_small, shared_sandbox
from agentrl.sandbox import Result
from tests.algebra import Breaks, Here, Says
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
        ("3", "5..6", None),
        ("5", "5\\text{ maybe}", False),
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
        ("Yes", "yes.", True),
        ("no", "\\text{No}", True),
        ("yes", "no", False),
        ("\\text{(B)}", "b", True),
        ("\\text{B}", "\\textbf{(B)}", True),
        ("B", "b", False),
        ("r", "\\text{R}", False),
        ("r", "\\text{r}", True),
        ("101_2", "101", True),
        ("101", "101_2", False),
        ("\\frac{1}{2}", "√½", False),
        ("\\sqrt{2}", "2^½", True),
        ("\\frac{x}{2}", "½x", True),
        ("1.5", "3/½", False),
        ("10^6", "10 millions", None),
        ("\\frac{1}{3}", "0.333333", True),
        ("\\frac{1}{3}", "0.333334", False),
        ("\\frac{2}{3}", "0.666666", True),
        ("1, 2, 3", "1, ..., 3", False),
        ("1, 2, ..., 9", "1, ..., 9", None),
        ("", "", None),
    ],
)
def test_what_exact_comparison_says(gold, answer, correct):
    assert exactly(gold, answer) is correct


@pytest.mark.parametrize(
    "words",
    [
        "factorial", "negative", "inverse", "reciprocal", "halved", "doubled", "repeating",
        "hundredths", "thirds", "twentieths", "tens", "thousands", "eleven", "sixteen",
        "twenty-one", "versus eleven", "however twelve", "else nine", "alternatively ten",
    ],
)  # fmt: skip
def test_a_word_that_changes_what_is_said_is_no_unit(words):
    assert math_equal("10", f"10 {words}", runner=Says("[[true, true, false]]")).correct is False


@pytest.mark.parametrize("words", ["apples", "months", "positive integers", "births", "more-or-so"])
def test_any_other_noun_measures_nothing(words):
    assert exactly("10", f"10 {words}") is (words != "more-or-so") or None


NOISE = st.text(alphabet="0123456789x+-*/^\\{}()[],.=<> fracsqt!|&°%")


@given(st.text() | NOISE, st.text())
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


BROKEN = [
    ("timeout_cpu", signal.SIGKILL),
    ("timeout_wall", signal.SIGKILL),
    ("memory", signal.SIGKILL),
    ("output_limit", None),
    ("error", None),
    ("killed", signal.SIGSEGV),
]


@pytest.mark.parametrize(("status", "sent"), BROKEN)
def test_what_breaks_at_an_answer_and_not_at_the_gold_alone_is_a_wrong_answer(status, sent):
    runner = Breaks(Result(status, "", 0.0, 2, signal=sent))
    verdict = math_equal(SUM, "S_n", runner=runner)
    assert (verdict.correct, runner.calls) == (False, 2)
    assert status in verdict.reason
    assert "the gold alone" in verdict.reason


def test_an_answer_that_had_half_of_its_time_on_a_busy_machine_is_wrong():
    for cpu, correct in ((1.1, False), (0.9, None)):
        busy = Result("timeout_wall", "", 0.0, 2, cpu=cpu, host_overload=True)
        assert math_equal("5", SUM, timeout=2.0, runner=Breaks(busy)).correct is correct


def test_of_a_gold_that_is_read_exactly_algebra_is_not_asked_again():
    runner = Breaks(Result("timeout_cpu", "", 0.0, 2))
    assert math_equal("5", SUM, runner=runner).correct is False
    assert runner.calls == 1


@pytest.mark.parametrize(
    "result",
    [
        Result("sandbox_failure", "", 0.0, 2, problem="the fork server ended"),
        Result("timeout_wall", "", 0.0, 2, host_overload=True),
        Result("killed", "", 0.0, 2, signal=signal.SIGKILL),
    ],
)
def test_a_failure_of_the_machinery_is_undecided_whatever_the_answer(result):
    for gold, answer in ((SUM, "S_n"), ("5", SUM)):
        verdict = math_equal(gold, answer, runner=Breaks(result))
        assert verdict.correct is None
        assert result.status in verdict.reason


HATCHES = st.sampled_from(
    [
        "",
        "{",
        "}",
        "(" * 21 + "x" + ")" * 21,
        "(100!)!",
        "9" * 1001,
        "\\int e^{-x^2} \\sin(x^5) dx",
        "\\prod_{n=1}^{\\infty} n^{n}",
        "1, ..., 3",
        ",".join(f"\\sum_{{{k}}}" for k in range(13)),
        *HANGING.values(),
    ]
)
GOLDS = st.sampled_from(
    [
        *("5", "1/9", "\\sqrt{2}", "50\\%", "yes", "x^2+1", "y=2x", "x>3", "1,2,3", "(1,2)"),
        *("\\{1,2\\}", ",".join(map(str, range(13))), "\\begin{pmatrix}1&2\\end{pmatrix}"),
    ]
)


@given(GOLDS, HATCHES | NOISE | st.text())
def test_no_answer_makes_a_gold_that_can_be_read_undecided(gold, answer):
    for ending in (
        Result("timeout_cpu", "", 0.0, 2),
        Result("ok", "[[false, false, false]]", 0, 2),
    ):
        verdict = math_equal(gold, answer, runner=Breaks(ending))
        assert verdict.correct is not None
        assert not verdict.reason.startswith("undecided")


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
    assert math_equal(SUM, text, runner=said).correct is False
    assert math_equal(f"{text}+{SUM}", "5", runner=said).correct is None
    assert said.asked == []


def test_the_whole_is_undecided_only_for_its_undecided_parts():
    here = Here()
    assert math_equal(f"({SUM}, 2)", "(n(n+1)/2, 2)", runner=here).correct is True
    assert math_equal(f"({SUM}, 2)", "(n(n+1)/2, 3)", runner=Says("")).correct is False
    assert math_equal(f"{SUM}, 2", "2, \\frac{n^2+n}{2}", runner=here).correct is True
    assert math_equal("e^{i\\pi}", "-1", runner=here).correct is True
    assert math_equal("\\gcd(4,6)", "2", runner=here).correct is True


@pytest.mark.parametrize(
    ("gold", "problem"),
    [
        ("", "empty"),
        ("nan", "no value"),
        ("1/0", "no value"),
        ("{1", "never closes"),
        ("1" * 1001, "over 1000"),
        ("3 \\ast\\ast\\ast 4", "no mathematics"),
        (",".join(f"x+{k}" for k in range(13)), "over 12 parts in no order"),
    ],
)
def test_a_gold_that_cannot_be_graded_is_found_when_data_are_loaded(gold, problem):
    assert problem in check_gold(gold, runner=Says("[[false, false, false]]"))


class Counting:
    """The sandbox of this process, and what each call cost."""

    def __init__(self):
        self.cpu = []
        self.overloaded = False

    def run(self, code, *, limits=None):
        result = shared_sandbox().run(code, limits=limits)
        self.cpu.append(result.cpu)
        self.overloaded |= result.host_overload
        return result


@pytest.fixture(scope="module")
def sandbox():
    try:
        shared_sandbox().run("pass")
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("sandbox")
def test_hostile_answers_end_eight_at_once_and_the_next_one_is_graded():
    counting = Counting()

    def graded(pair):
        assert threading.current_thread() is not threading.main_thread()
        return math_equal(*pair, timeout=1.0, runner=counting)

    hostile = [(gold, answer) for gold in ("1/9", SUM) for answer in HANGING.values()]
    with ThreadPoolExecutor(8) as pool:
        verdicts = list(pool.map(graded, hostile))
        after = pool.submit(graded, ("1/2", "0.5")).result(timeout=2.0)
    assert all(verdict.correct is not True for verdict in verdicts)
    if not counting.overloaded:
        assert all(verdict.correct is False for verdict in verdicts[: len(HANGING)])
    # Processor time: how long a busy machine lets a child wait is not the grader's.
    assert max(counting.cpu) < 2.0
    assert len(counting.cpu) < 1.5 * len(hostile)
    assert after.correct is True


@pytest.mark.usefixtures("sandbox")
def test_a_process_keeps_one_sandbox_for_all_its_threads():
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: id(shared_sandbox()), range(32)))) == 1


@pytest.mark.usefixtures("sandbox")
def test_algebra_decides_in_the_sandbox():
    assert math_equal(SUM, "n(n+1)/2", timeout=10.0).correct is True
    assert math_equal(SUM, "n(n+2)/2", timeout=10.0).correct is False
