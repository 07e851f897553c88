import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.graders import final_answer, math_equal


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
        ("42", "6*7", None),
        ("42", "", None),
        ("x+1", "x+1", True),
        ("x+1", "1+x", None),
        (7, 7.0, True),
    ],
)
def test_numbers_compare_exactly_and_the_rest_is_undecided(gold, answer, correct):
    assert math_equal(gold, answer).correct is correct


@given(st.text())
def test_any_text_is_read_without_failing(text):
    answer = final_answer(text)
    if answer is not None:
        assert math_equal(answer, answer).correct is True


def test_a_long_row_of_open_boxes_is_read_once():
    text = "\\boxed{" * 100_000
    assert final_answer(text + "7}") == "7"
