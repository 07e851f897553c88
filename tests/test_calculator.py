import pytest

from agentrl.errors import ToolError
from agentrl_tools.calculator import evaluate


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("17*24", "408"),
        ("2^10 - 1/3", "3071/3"),
        ("0.1+0.2", "0.3"),
        ("2/8", "0.25"),
        ("sqrt(2)", "~1.4142135623731"),
        ("9^500", "~1.322e+477 (478 digits)"),
    ],
)
def test_an_answer_is_whole_a_short_decimal_a_fraction_or_marked_as_rounded(expression, answer):
    assert evaluate(expression) == answer


@pytest.mark.parametrize(
    "expression",
    [
        "2 +",
        "",
        "1/0",
        "9**9**9**9",
        "factorial(10**9)",
        "__import__('os').system('touch x')",
        "1/2(3)",
        "3 4",
        "\ud800",
        "(" * 5000,
    ],
)
def test_a_refusal_is_a_tool_error_in_one_readable_line(expression):
    with pytest.raises(ToolError) as refusal:
        evaluate(expression)
    message = str(refusal.value)
    assert message.startswith("calculator: ")
    assert message.endswith((".", "?"))
    assert message.isprintable()
    assert refusal.value.__cause__ is None


def test_a_refusal_names_the_place_and_what_to_write_instead():
    with pytest.raises(ToolError, match=r"character 3: ambiguous.*Write the operator"):
        evaluate("1 1/2")
