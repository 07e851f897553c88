import pytest

from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault, SandboxUnavailable, UsageError
from agentrl.message import AssistantTurn, ToolCall
from agentrl.sandbox import Sandbox
from agentrl.task import Task
from agentrl_tools.python import Limits, Python, Result, ending, run, shared, told
from agentrl_tools.symbolic import Symbolic
from tests.boxes import box
from tests.tool_manners import call, calls, check_manners, started


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


# The toolbox


def say(python, code):
    return call(python, "python", code=code)


def test_variables_last_through_an_episode_and_no_longer(sandbox):
    python = Python(sandbox=sandbox)
    with started(python):
        assert say(python, "x = 1").content == "(nothing was printed)"
        outcome = say(python, "x + 1")
        assert (outcome.content, outcome.status) == ("2", "ok")
        assert outcome.metrics == {"sandbox_level": float(sandbox.level)}
    with started(python):
        assert "NameError" in say(python, "x").content


def test_calls_of_one_turn_run_in_the_order_they_were_written(sandbox):
    with started(Python(sandbox=sandbox)) as python:
        codes = ["x = 0", *(f"x = 10 * x + {i}; x" for i in range(1, 7))]
        said = calls(python, *(ToolCall("python", {"code": code}) for code in codes))
        assert [one.content for one in said[1:]] == ["1", "12", "123", "1234", "12345", "123456"]


def test_without_a_session_each_call_is_a_script_of_its_own(sandbox):
    with started(Python(session=False, sandbox=sandbox)) as python:
        assert say(python, "x = 1; print(x)").content == "1"
        assert "NameError" in say(python, "print(x)").content
        assert python.tools()["python"].parallel


@pytest.mark.parametrize("session", [True, False])
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("while True: pass", "ended after 0.5 s of processor time"),
        ("raise ValueError('no')", "ValueError: no"),
        ("import sys; sys.exit('bye')", "bye"),
        ("print('x' * 100_000_000)", "[ended: it printed more than 8 MiB"),
        ("x = bytearray(10**10)", "MemoryError"),
        ("import ctypes; ctypes.string_at(0)", "[ended by a signal"),
        ("def f(", "SyntaxError"),
    ],
)
def test_code_that_ends_badly_is_an_error_in_words_and_the_next_call_works(
    sandbox, session, code, words
):
    with started(Python(session=session, seconds=0.5, sandbox=sandbox)) as python:
        outcome = say(python, code)
        assert words in outcome.content
        assert outcome.status == "error"
        assert say(python, "print(2)").content.startswith("2")


def test_what_is_no_number_is_text(sandbox):
    with started(Python(sandbox=sandbox)) as python:
        assert say(python, "float('nan')").content == "nan"
        assert say(python, "float('inf')").status == "ok"


@pytest.mark.parametrize("box_of", [Python, Symbolic])
def test_what_is_nobodys_fault_ends_the_episode_without_a_reward(box_of):
    class Broken:
        level = 3

        def run(self, code, *, limits=None):
            return Result("sandbox_failure", "", 0.0, 3, problem="the fork server ended")

    box = Python(session=False, sandbox=Broken()) if box_of is Python else Symbolic(Broken())

    class Bench(ToolEnv):
        def toolboxes(self):
            return [box]

    name = next(iter(box.tools()))
    argument = {"code": "1"} if box_of is Python else {"equations": "x = 1"}
    env = Bench()
    env.reset(options={"task": Task("x")})
    *_, info = env.step(AssistantTurn("", (ToolCall(name, argument),)))
    assert (info["stop"], "the fork server ended" in info["problem"]) == ("env_error", True)
    env.close()


@pytest.mark.parametrize("make", [Python, Symbolic, lambda **o: Python(session=False, **o)])
def test_a_machine_that_holds_no_code_is_met_when_an_episode_begins(make):
    class Held:
        @property
        def level(self):
            raise SandboxUnavailable("sandbox: nothing holds here.")

        session = level

    with pytest.raises(SandboxUnavailable):
        make(sandbox=Held()).start(Task("x"))


def test_a_call_before_an_episode_is_a_mistake_of_the_caller(sandbox):
    with pytest.raises(UsageError, match="no episode has begun"):
        Python(sandbox=sandbox).python("1")


def test_the_policy_is_told_what_is_there():
    def told_of(**options):
        return Python(**options).tools()["python"].description

    assert "numpy and sympy are there; files and the network are not." in told_of()
    assert "stay for later calls" in told_of()
    assert "stay for later calls" not in told_of(session=False)
    assert "numpy is there" in told_of(packages="numpy")
    assert "numpy, scipy and sympy are" in told_of(packages="numpy,scipy, sympy")
    assert "The standard library is there" in told_of(packages=())


def test_limits_that_cannot_be_are_refused():
    for options in ({"seconds": 0}, {"megabytes": -1}, {"seconds": float("inf")},
                    {"megabytes": float("nan")}):  # fmt: skip
        with pytest.raises(UsageError, match="python: seconds and megabytes"):
            Python(**options)


def test_symbolic_answers_say_how_sympy_was_held():
    with Sandbox(packages=("sympy",), preload=("sympy",)) as sympy, started(Symbolic(sympy)) as box:
        outcome = call(box, "solve", equations="x^2 = 4")
        assert outcome.content == "x = -2\nx = 2"
        assert outcome.metrics == {"sandbox_level": float(sympy.level)}
        assert call(box, "simplify", expression="nan").content == "nan"
        said = call(box, "simplify", expression="__import__('os')._exit(1)")
        assert (said.status, "without a word" in said.content) == ("error", True)


def test_nonsense_is_answered(sandbox):
    for session in (True, False):
        with started(Python(session=session, sandbox=sandbox)) as python:
            check_manners(python)
