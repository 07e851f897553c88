import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.errors import UsageError
from agentrl.graders import Verdict, final_answer, is_number, math_equal, reward_of


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Answer: 42", "42"),
        ("so 7 and 8.\n**Answer:** 42.", "42"),
        ("Answer: 1\nAnswer: -2.50", "-2.50"),
        ("answer = $1,234$", "1,234"),
        ("It is 12 + 30, which gives 42.", "42"),
        ("about 3/4 of it", "3/4"),
        ("\\boxed{\\frac{1}{2}} not 7", "\\frac{1}{2}"),
        ("\\boxed{1} then \\boxed{2", "1"),
        ("Answer:\n", None),
        ("no number at all", None),
        ("x2 and v1", None),
        ("\\boxed{5", None),
        ("it is 5: \\boxed{}", None),
        ("\\boxed{\\boxed{2}}", "2"),
        ("\\boxed{5}, \\boxed{6}", "6"),
        ("\\fbox{5}", "5"),
        ("$\\boxed 42$", "42"),
        ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
        ("<think>\\boxed{1}</think> \\boxed{2}", "2"),
        ("\\boxed{1}</think> I can't say.", None),
        ("<think>it may be 3", None),
        ("Answer: " + "1" * 1001, None),
        ("", None),
    ],
)
def test_the_answer_is_found_where_it_stands(text, answer):
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    ("gold", "answer", "correct"),
    [
        ("42", "42", True),
        ("42", "42.0", True),
        ("1/2", "0.5", True),
        ("1234", "1,234", True),
        ("42", "43", False),
        ("0.1", "0.10000000000000001", False),
        ("42", "6*7", True),
        ("42", "", False),
        ("x+1", "x+1", True),
        ("x+1", "1+x", True),
        (7, 7.0, True),
    ],
)
def test_numbers_compare_exactly_and_no_answer_is_wrong(gold, answer, correct):
    assert math_equal(gold, answer).correct is correct


@given(st.text())
def test_any_text_is_read_without_failing(text):
    answer = final_answer(text)
    if answer is not None:
        assert math_equal(answer, answer).correct is True


def test_a_long_row_of_open_boxes_is_read_once():
    text = "\\boxed{" * 100_000
    assert final_answer(text + "7}") == "7"


@pytest.mark.parametrize(
    ("form", "text", "answer"),
    [
        ("boxed", "Answer: 3", None),
        ("boxed", "\\boxed{3}. Answer: 4", "3"),
        ("label", "\\boxed{3}. \nAnswer: 4", "4"),
        ("label", "it is 4", None),
        ("tag", "<answer> 7 </answer>", "7"),
        ("tag", "<answer>7</answer> no, <answer>8</answer>", "8"),
        ("tag", "<answer>7</answer> or <answer>8", "7"),
        ("tag", "<answer>7", None),
        ("####", "3 + 4 = 7\n#### 7", "7"),
        ("####", "it is 7", None),
        ("number", "\\boxed{3} or 4", "4"),
    ],
)
def test_a_declared_format_takes_that_form_alone(form, text, answer):
    assert final_answer(text, form) == answer


def test_an_unknown_format_names_those_that_there_are():
    with pytest.raises(UsageError, match="boxed, label, tag"):
        final_answer("7", "xml")


@given(
    st.text(alphabet="\\{}boxedfanswr<>/ 1,.:#$=\n")
    | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")),
    st.sampled_from(["any", "boxed", "label", "tag", "####", "number"]),
)
def test_an_answer_is_a_part_of_the_text_in_every_format(text, form):
    answer = final_answer(text, form)
    assert answer is None or (answer and answer in text and len(answer) <= 1000)


def test_an_undecided_answer_is_worth_what_the_environment_says():
    undecided = Verdict(None, "", 0.0)
    assert reward_of(undecided) is None
    assert reward_of(undecided, "zero") == 0.0
    assert reward_of(Verdict(True, "", 0.0)) == 1.0
    assert reward_of(Verdict(False, "", 0.0), "mask") == 0.0


def test_importing_graders_loads_no_computer_algebra():
    code = "import sys, agentrl.graders; print({'sympy', 'math_verify'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@given(
    st.sampled_from(["12", "-1/3", "2e3", "x + 1", "\\pi"]),
    st.text(max_size=40)
    | st.sampled_from(["Answer: 12", "Answer: 1/3.", r"\boxed{2+2}", "Answer: "]),
)
def test_what_counts_as_a_number_is_graded_without_algebra(gold, text):
    def refuse(*given):
        raise AssertionError(f"algebra was asked: {given}")

    if not is_number(gold, text):
        return
    answer = final_answer(text)
    assert answer is None or math_equal(gold, answer, runner=refuse).correct is not None


@pytest.mark.parametrize(
    ("gold", "text", "number"),
    [
        ("12", "Answer: 13", True),
        ("12", "no idea", True),
        ("12", "Answer: 6*2", False),
        ("x", "Answer: 12", False),
        ("12", "Answer: 12" + " " * 2000, False),
    ],
)
def test_a_short_text_with_a_number_or_nothing_is_graded_in_no_time(gold, text, number):
    assert is_number(gold, text) is number
