import math
import subprocess
import sys
import threading
import warnings

import pytest

from agentrl.errors import SandboxUnavailable, UsageError
from agentrl.sandbox import Limits, Sandbox
from tests.boxes import box

SHORT = Limits(cpu=0.3, wall=20.0)


@pytest.fixture(scope="module", params=[3, 2])
def sandbox(request):
    with box(level=request.param) as made:
        yield made


@pytest.fixture(scope="module")
def strictest():
    with box() as made:
        yield made


# What a script is.


def test_a_script_says_what_it_prints(sandbox):
    result = sandbox.run("print(6 * 7)")
    assert (result.status, result.stdout) == ("ok", "42\n")
    assert result.level == sandbox.level
    assert 0 < result.cpu < result.seconds * 64


def test_nothing_is_shown_that_is_not_printed(strictest):
    assert strictest.run("6 * 7").stdout == ""


def test_both_streams_come_in_the_order_they_were_written(strictest):
    code = """
import sys
for n in range(5):
    sys.stdout.write(f"{n} ")
    sys.stderr.write("| ")
"""
    assert strictest.run(code).stdout == "0 | 1 | 2 | 3 | 4 | "


def test_an_exception_is_an_error_with_the_line_it_came_from(strictest):
    result = strictest.run("print('before')\n\n1 / 0\n")
    assert result.status == "error"
    assert result.stdout.startswith("before\nTraceback")
    assert 'File "main.py", line 3' in result.stdout
    assert "1 / 0" in result.stdout
    assert result.stdout.endswith("ZeroDivisionError: division by zero\n")


def test_a_traceback_shows_the_code_and_nothing_of_the_sandbox(strictest):
    code = (
        "try:\n    raise ValueError(2)\nexcept ValueError:\n    raise KeyError(1) from TypeError(3)"
    )
    said = strictest.run(code).stdout
    assert "interpreter.py" not in said
    assert "agentrl" not in said
    assert "TypeError: 3" in said
    assert "KeyError: 1" in said


@pytest.mark.parametrize(
    "code",
    [
        "def f(:",
        "x = '\\ud800'.encode()",
        "(" * 5000,
        "-" * 60_000 + "1",
        "return",
        "\ufffe",
        "\f 1 1",
    ],
)
def test_what_does_not_compile_or_run_is_an_error(strictest, code):
    result = strictest.run(code)
    assert result.status == "error"
    assert "Error" in result.stdout


@pytest.mark.parametrize("code", ["a\0b", "x" * 70_000, "'\ud800'", 7, None])
def test_what_is_no_code_is_an_error_and_not_an_exception(strictest, code):
    result = strictest.run(code)
    assert result.status == "error"
    assert result.stdout.startswith("The code ")


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("import sys; sys.exit()", "ok", ""),
        ("exit_now = SystemExit(0)\nraise exit_now", "ok", ""),
        ("import sys; sys.exit(3)", "error", ""),
        ("import sys; sys.exit('no')", "error", "no\n"),
        ("import os; os._exit(0)", "ok", ""),
        ("import os; os._exit(9)", "error", ""),
        ("", "ok", ""),
    ],
)
def test_leaving_early_says_how_it_went(strictest, code, status, said):
    result = strictest.run(code)
    assert (result.status, result.stdout) == (status, said)


def test_threads_and_exit_handlers_run_to_their_end(strictest):
    code = """
import atexit, threading, time
atexit.register(print, "handler")
threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
print("main")
"""
    assert strictest.run(code).stdout == "main\nthread\nhandler\n"


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import sys; sys.stdout = sys.stderr = sys.__stdout__ = None",
        "import os; [os.close(n) for n in range(3)]",
        "import os; os.closerange(0, 64)",
        "class A:\n    def flush(self): raise KeyboardInterrupt\nimport sys; sys.stdout = A()",
    ],
)
def test_a_script_may_do_away_with_its_streams(strictest, code):
    assert strictest.run(code).status == "ok"


@pytest.mark.parametrize(
    "body", ["raise KeyboardInterrupt", "raise SystemExit(0)", "return 1", "return self.x"]
)
def test_an_exception_that_can_not_be_told_is_still_an_error(strictest, body):
    code = f"class E(Exception):\n    def __str__(self): {body}\nraise E()"
    result = strictest.run(code)
    assert result.status == "error"
    assert "E" in result.stdout


def test_standard_input_is_empty(strictest):
    assert strictest.run("input()").stdout.endswith("EOFError: EOF when reading a line\n")


def test_bytes_that_are_no_text_are_replaced(strictest):
    result = strictest.run("import os; os.write(1, b'a\\xff\\xfeb')")
    assert (result.status, result.stdout) == ("ok", "a\ufffd\ufffdb")


def test_halves_of_surrogate_pairs_are_shown_escaped(strictest):
    assert strictest.run("print('\\ud800')").stdout == "\\ud800\n"


def test_a_class_can_be_pickled_and_found_in_main(strictest):
    code = """
import pickle, sys
class A: pass
assert sys.modules["__main__"].A is A
assert type(pickle.loads(pickle.dumps(A()))) is A
print(__name__)
"""
    assert strictest.run(code).stdout == "__main__\n"


def test_flags_of_the_standard_streams_are_not_seen_by_the_next_call(strictest):
    code = """
import fcntl, os
print([fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (0, 1, 2)])
for fd in (0, 1, 2):
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK)
    except OSError:
        pass
"""
    assert strictest.run(code).stdout == strictest.run(code).stdout


# Limits.


def test_a_loop_ends_at_its_processor_time(sandbox):
    result = sandbox.run("print('on')\nwhile True: pass", limits=SHORT)
    assert (result.status, result.stdout) == ("timeout_cpu", "on\n")
    assert 0.25 < result.cpu < 3
    assert not result.host_overload


def test_signals_that_are_ignored_change_nothing(sandbox):
    code = """
import signal
for number in signal.valid_signals():
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True: pass
"""
    assert sandbox.run(code, limits=SHORT).status == "timeout_cpu"


def test_a_loop_in_c_ends_too(sandbox):
    assert sandbox.run("sum(range(10 ** 11))", limits=SHORT).status == "timeout_cpu"


def test_sleeping_ends_at_the_wall_and_is_the_codes_own_doing(sandbox):
    result = sandbox.run("import time; time.sleep(60)", limits=Limits(wall=0.4))
    assert result.status == "timeout_wall"
    assert not result.host_overload
    assert 0.4 <= result.seconds < 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"cpu": 0},
        {"cpu": "5"},
        {"cpu": 10**400},
        {"wall": math.nan},
        {"wall": -1.0},
        {"memory": 1.5},
        {"memory": 2**70},
        {"files": -1},
        {"files": 10**9},
        {"processes": 0},
        {"scratch": -1},
        {"output_kept": None},
    ],
)
def test_limits_that_can_not_be_are_refused_by_name(wrong):
    with pytest.raises(UsageError, match=rf"^Limits: {next(iter(wrong))}="):
        Limits(**wrong)


def test_limits_may_be_without_end(sandbox):
    endless = Limits(cpu=float("inf"), wall=float("inf"))
    assert sandbox.run("print(1)", limits=endless).stdout == "1\n"


def test_too_much_memory_is_told_apart(sandbox):
    result = sandbox.run("x = bytearray(2 << 30)")
    assert result.status == "memory"
    assert "MemoryError" in result.stdout


def test_memory_within_the_limit_is_there(sandbox):
    assert sandbox.run("import mmap; mmap.mmap(-1, 900 << 20)").status == "ok"


def test_output_keeps_its_beginning_and_its_end(sandbox):
    limits = Limits(output_kept=400)
    result = sandbox.run("for n in range(10000): print(n)", limits=limits)
    assert result.status == "ok"
    assert result.stdout.startswith("0\n1\n2\n")
    assert result.stdout.endswith("\n9998\n9999\n")
    assert f"[... {result.cut} bytes cut ...]" in result.stdout
    assert result.cut == 48890 - 400


def test_too_much_output_ends_the_code(sandbox):
    code = "import sys\nwhile True: sys.stdout.write('x' * 100000)"
    result = sandbox.run(code)
    assert result.status == "output_limit"
    assert len(result.stdout) < 20_000
    assert result.cut < 10 << 20


def test_long_lines_of_a_traceback_are_cut(strictest):
    result = strictest.run(f"x = '{'a' * 30_000}' + 1")
    assert "[... cut]" in result.stdout
    assert len(result.stdout) < 8000


def test_a_crash_names_its_signal(strictest):
    result = strictest.run("import ctypes; ctypes.string_at(0)")
    assert (result.status, result.signal) == ("killed", 11)


def test_a_script_can_not_pass_for_one_that_ran_out_of_time(strictest):
    code = "import signal\nsignal.raise_signal(signal.SIGXCPU)\nprint('alive')"
    assert strictest.run(code).status in ("killed", "ok")


def test_a_script_that_stops_itself_is_ended(sandbox):
    code = "import signal\nsignal.raise_signal(signal.SIGSTOP)"
    assert sandbox.run(code, limits=Limits(wall=0.4)).status in ("timeout_wall", "ok", "error")


def test_writing_to_every_descriptor_forges_nothing(strictest):
    code = """
import json, os
for fd in range(3, 64):
    for text in (b"", b"{}", json.dumps({"exit": 0, "signal": None, "cpu": 0}).encode() + b"\\n"):
        try:
            os.write(fd, text)
            print("wrote to", fd)
        except OSError:
            pass
os._exit(4)
"""
    result = strictest.run(code)
    assert (result.status, result.stdout) == ("error", "")


# What code may see.


def test_this_project_can_not_be_imported(sandbox):
    code = """
import sys
assert not [name for name in sys.modules if "agentrl" in name]
for name in ("agentrl", "agentrl.sandbox", "agentrl_tools", "agentrl_environments", "tests"):
    try:
        __import__(name)
        print("imported", name)
    except ImportError:
        pass
"""
    assert sandbox.run(code).stdout == ""


def test_its_environment_says_nothing_of_ours(strictest, monkeypatch):
    monkeypatch.setenv("AGENTRL_SECRET", "key")
    with box() as made:
        said = made.run("import os; print(sorted(os.environ))").stdout
    assert "SECRET" not in said
    assert "USER" not in said


def test_the_same_code_says_the_same_each_time():
    code = """
import random
import numpy
print(random.random(), numpy.random.rand(), hash("text"), list({"a", "b", "c"}))
"""
    said = set()
    for preload in ((), ("numpy.random",)):
        with box(packages=("numpy",), preload=preload) as made:
            said |= {made.run(code).stdout, made.run(code).stdout}
    assert len(said) == 1
    assert "Error" not in said.pop()


def test_what_a_call_does_is_gone_in_the_next(strictest):
    assert strictest.run("import math; math.pi = 3\nimport sys; sys.x = 1").status == "ok"
    assert strictest.run("import math, sys; print(math.pi, hasattr(sys, 'x'))").stdout == (
        "3.141592653589793 False\n"
    )


def test_code_of_an_earlier_call_is_not_in_memory(strictest):
    secret = "s" + "ecret of another episode"
    strictest.run(f"x = {secret!r}")
    code = f"""
import gc
wanted = {secret[:12]!r} + {secret[12:]!r}
print([True for x in gc.get_objects() if isinstance(x, (bytes, str)) and wanted in str(x)])
"""
    assert strictest.run(code).stdout == "[]\n"


def test_packages_are_there_when_they_are_named_and_only_then():
    with box(packages=("numpy",)) as made:
        assert made.run("import numpy; print(numpy.arange(3).sum())").stdout == "3\n"
        assert "ModuleNotFoundError" in made.run("import sympy").stdout
        assert "ModuleNotFoundError" in made.run("import pytest").stdout


def test_what_is_preloaded_is_there_without_being_loaded_again():
    with box(preload=("fractions",)) as made:
        assert made.run("import sys; print('fractions' in sys.modules)").stdout == "True\n"


# What may be asked for.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"level": 4}, "level=4"),
        ({"min_level": 0}, "min_level=0"),
        ({"backend": "wasy"}, "Did you mean wasi"),
        ({"url": "http://x"}, "remote"),
        ({"backend": "remote"}, "url="),
        ({"packages": ("no-such-package",)}, "no-such-package"),
        ({"packages": ("agentrl-pods",)}, "agentrl"),
        ({"slots": -1}, "slots=-1"),
        ({"patience": 0}, "patience=0"),
        ({"ttl": math.nan}, "ttl=nan"),
        ({"packages": "numpy"}, "are lists"),
    ],
)
def test_what_can_not_be_is_refused_in_words(options, words):
    with pytest.raises(UsageError, match=words):
        Sandbox(**options)


def test_what_can_not_be_preloaded_is_refused_at_first_use():
    box().close()
    with (
        Sandbox(packages=(), preload=("no_such_module",)) as made,
        pytest.raises(UsageError, match="no_such_module"),
    ):
        made.run("1")


@pytest.mark.parametrize("options", [{"level": 1}, {"min_level": 1}])
def test_level_1_is_refused_unless_unsafe_is_said(options):
    with pytest.raises(SandboxUnavailable, match="unsafe=True"):
        Sandbox(**options)


def test_level_1_warns_once_and_is_recorded():
    code = """
import warnings
from agentrl.sandbox import Sandbox
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        with Sandbox(packages=(), level=1, unsafe=True) as made:
            print(made.run("print('hi')").level)
print(len(caught), caught[0].category.__name__, "no isolation" in str(caught[0].message))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n1\n1 RuntimeWarning True\n"


def test_unsafe_still_takes_the_strictest_level_that_holds(strictest):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Sandbox(packages=(), unsafe=True) as made:
            assert made.level == strictest.level


def test_a_closed_sandbox_says_so():
    made = box()
    made.close()
    made.close()
    with pytest.raises(UsageError, match="closed"):
        made.run("1")


def test_elsewhere_than_on_linux_it_is_refused_in_words():
    code = """
import sys
sys.platform = "darwin"
from agentrl.errors import SandboxUnavailable
from agentrl.sandbox import Sandbox
try:
    Sandbox(packages=())
except SandboxUnavailable as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "needs Linux, and this is darwin" in done.stdout
    assert "wasi" in done.stdout


def test_many_threads_share_one():
    said = {}
    with box(slots=4) as made:

        def work(number):
            said[number] = made.run(f"print({number})").stdout

        threads = [threading.Thread(target=work, args=(n,)) for n in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert said == {n: f"{n}\n" for n in range(64)}


def test_the_queue_counts_towards_no_limit():
    limits = Limits(wall=0.8)
    results = []
    with box(slots=1) as made:
        code = "import time; time.sleep(0.3)"
        threads = [
            threading.Thread(target=lambda: results.append(made.run(code, limits=limits)))
            for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [result.status for result in results] == ["ok"] * 5
