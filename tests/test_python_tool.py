import pytest

from agentrl.errors import EnvironmentFault
from agentrl_tools.python import Limits, Result, ending, run, shared, told
from tests.boxes import box


@pytest.fixture(scope="module")
def sandbox():
    with box() as made:
        yield made


def test_a_policy_reads_what_its_code_printed(sandbox):
    result = run("print(1)\nprint(2)", sandbox)
    assert (result.content, result.is_error, result.reward) == ("1\n2", False, 0.0)
    assert result.metrics == {"sandbox_level": float(sandbox.level)}


def test_code_that_prints_nothing_is_told_so(sandbox):
    assert run("x = 1", sandbox).content == "(nothing was printed)"


def test_an_error_is_read_as_its_traceback(sandbox):
    result = run("1 / 0", sandbox)
    assert result.content.endswith("ZeroDivisionError: division by zero")
    assert result.is_error


@pytest.mark.parametrize("code", ["a\0b", "x" * 70_000, "'\ud800'"])
def test_what_is_no_code_is_told_to_the_policy(sandbox, code):
    result = run(code, sandbox)
    assert result.content.startswith("The code ")
    assert result.is_error


def test_running_out_of_time_is_said_in_seconds(sandbox):
    result = run("print('on')\nwhile True: pass", sandbox, Limits(cpu=0.3, wall=30.0))
    assert result.content == "on\n[ended after 0.3 s of processor time]"
    assert result.is_error


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (Result("timeout_wall", "a", 1.0, 3), "a\n[ended after 12 s]"),
        (Result("memory", "", 1.0, 3), "[ended: it needed more than 1024 MiB of memory]"),
        (Result("output_limit", "a", 1.0, 3), "a\n[ended: it printed more than 8 MiB]"),
        (Result("killed", "", 1.0, 3, signal=11), "[ended by a signal]"),
        (Result("ok", "a\n", 1.0, 3, lost=True), "a\n[variables of earlier code are gone]"),
        (Result("ok", "a", 1.0, 3, restarted=True), "a\n[variables of earlier code are gone]"),
    ],
)
def test_every_ending_has_words(result, words):
    assert told(result).content == words


@pytest.mark.parametrize(
    "result",
    [
        Result("sandbox_failure", "", 0.0, 3, problem="the fork server ended"),
        Result("timeout_wall", "", 12.0, 3, host_overload=True),
    ],
)
def test_what_is_nobodys_fault_is_a_fault_of_the_environment_and_no_result(result):
    for use in (told, lambda one: ending(one, Limits())):
        with pytest.raises(EnvironmentFault):
            use(result)


def test_one_sandbox_serves_all_who_ask_for_the_same():
    assert shared(()) is shared(())
    assert shared(()) is not shared(("numpy",))
