import json

import pytest

from agentrl.errors import EnvironmentFault, ToolError
from agentrl.sandbox import Limits, Result, Sandbox
from agentrl_tools.symbolic import MAX_ANSWER, MAX_TEXT, Symbolic


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(packages=("sympy",), preload=("sympy",)) as box:
        yield box


@pytest.fixture
def algebra(sandbox):
    return Symbolic(sandbox)


class Broken:
    """A sandbox whose every call ends in one way."""

    def __init__(self, **result):
        self.result = Result(**{"status": "ok", "stdout": "", "seconds": 1.0, "level": 2, **result})
        self.codes = []

    def run(self, code, *, limits=None):
        self.codes.append(code)
        return self.result


SOLVED = [
    ("x^2 = 4", "x", "x = -2\nx = 2"),
    ("x**2 - 4", "x", "x = -2\nx = 2"),
    ("2x + 0.1 = 1", "x", "x = 9/20"),
    ("x + y = 3; x - y = 1", "x, y", "x = 2, y = 1"),
    ("x^2 + 1 = 0", "x", "x = -I\nx = I"),
    ("a*x = b", "x", "x = b/a"),
    ("x^2 < 4", "x", "(-2 < x) & (x < 2)"),
    ("x >= 1; x <= 1", "x", "Eq(x, 1)"),
    ("x = x", "x", "true for every value"),
    ("1 = 2", "x", "no solution"),
    ("x*y = 1; x = 0", "x, y", "no solution"),
]


@pytest.mark.parametrize(("equations", "variables", "solution"), SOLVED)
def test_equations_and_inequalities_are_solved(algebra, equations, variables, solution):
    assert algebra.solve(equations, variables) == solution


def test_calculus_is_exact(algebra):
    assert algebra.integrate("x^2") == "x**3/3"
    assert algebra.integrate("t^2", "t", "0", "3") == "9"
    assert algebra.integrate("exp(-x^2)", "x", "-oo", "oo") == "sqrt(pi)"
    assert algebra.differentiate("x*sin(x)") == "x*cos(x) + sin(x)"
    assert algebra.differentiate("x^5", times=3) == "60*x**2"
    assert algebra.limit("sin(x)/x", "0") == "1"
    assert algebra.limit("(1 + 1/n)^n", "oo", "n") == "E"
    assert algebra.limit("1/x", "0", side="left") == "-oo"


def test_expressions_are_simplified_and_factored(algebra):
    assert algebra.simplify("sin(x)^2 + cos(x)^2") == "1"
    assert algebra.factor("x^4 - 1") == "(x - 1)*(x + 1)*(x**2 + 1)"
    assert algebra.factor("360") == "2^3 * 3^2 * 5"
    assert algebra.factor("1") == "1"


REFUSED = [
    ("solve", ["x = 2 = 3"], "one ="),
    ("solve", ["  "], "no equation"),
    ("solve", ["x = 1", "2"], "is no variable"),
    ("solve", ["x = 1", ""], "the variable is empty"),
    ("solve", ["x < y; y < 1", "x, y"], "one variable"),
    ("solve", ["cos(x) = x"], "NotImplementedError"),
    ("integrate", ["x^x"], "no closed form"),
    ("integrate", ["1/x", "x", "1"], "both bounds"),
    ("differentiate", ["x", "x", 10**9], "from 1 to 20"),
    ("limit", ["1/x", "0"], "no limit"),
    ("limit", ["1/x", "0", "x", "above"], "left, right or both"),
    ("simplify", ["((("], "can't be read"),
    ("simplify", [""], "is empty"),
    ("simplify", ["'''"], "can't be read"),
    ("simplify", ["\ud800"], "can't be read"),
    ("simplify", ["x\x00"], "can't be read"),
    ("simplify", ["[1, 2]"], "is no expression"),
    ("simplify", ["exit()"], "can't be read"),
    ("simplify", ["__import__('os')._exit(1)"], "without a word"),
    ("factor", ["x" * (MAX_TEXT + 1)], "limit is 2000"),
]


@pytest.mark.parametrize(("name", "given", "reason"), REFUSED)
def test_a_refusal_is_one_readable_line(algebra, name, given, reason):
    with pytest.raises(ToolError, match=reason) as refusal:
        getattr(algebra, name)(*given)
    message = str(refusal.value)
    assert message.startswith(f"{name}: ")
    assert message.isprintable()
    assert len(message) < 400


def test_code_in_an_expression_reaches_nothing_outside(algebra, tmp_path):
    canary = tmp_path / "canary"
    for text in (f"open('{canary}', 'w')", f"__import__('os').system('touch {canary}')"):
        with pytest.raises(ToolError):
            algebra.simplify(text)
    assert not canary.exists()


def test_text_of_any_kind_arrives_as_it_was_given():
    box = Broken(stdout="done\n")
    hostile = "\"'''\\\n\r\ud800\u2028 é }); print(1)"
    assert Symbolic(box).simplify(hostile) == "done"
    call = box.codes[0].splitlines()[-1]
    literal = call.removeprefix("main(").removesuffix(")")
    assert json.loads(eval(literal, {}))["expression"] == hostile


def test_what_takes_too_long_or_too_much_is_told_in_words(sandbox):
    hasty = Symbolic(sandbox, limits=Limits(cpu=0.5, wall=60.0))
    with pytest.raises(ToolError, match=r"0\.5 s of processor time. Ask for something simpler"):
        hasty.simplify("10**10**10")
    with pytest.raises(ToolError, match="1024 MiB of memory"):
        hasty.simplify("[0]*10**10")
    assert hasty.simplify("1 + 1") == "2"


def test_a_long_result_is_cut_and_says_so(algebra):
    said = algebra.simplify("expand((x+1)^200)")
    assert "characters cut" in said[MAX_ANSWER:]
    assert len(said) < MAX_ANSWER + 100


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"status": "sandbox_failure", "problem": "the fork server ended"}, "fork server ended"),
        ({"status": "timeout_wall", "host_overload": True}, "waited for a processor"),
    ],
)
def test_what_is_nobodys_fault_is_the_environments(result, reason):
    with pytest.raises(EnvironmentFault, match=reason):
        Symbolic(Broken(**result)).simplify("x")
