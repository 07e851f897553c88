import gc
import os
import threading
import time
import warnings

import pytest

from agentrl.errors import UsageError
from agentrl.sandbox import Limits
from tests.boxes import box, gone, soon, state

SHORT = Limits(cpu=0.3, wall=20.0)
BRIEF = Limits(wall=0.4)


@pytest.fixture(scope="module", params=[3, 2])
def sandbox(request):
    with box(level=request.param) as made:
        yield made


@pytest.fixture
def session(sandbox):
    with sandbox.session() as opened:
        yield opened


def pid_of(session):
    return session._held.child.pid


def in_thread(run):
    """A thread that runs it, and where its result will be."""
    results = []
    thread = threading.Thread(target=lambda: results.append(run()))
    thread.start()
    return thread, results


def cpu_of(pid):
    return time.clock_gettime((~pid << 3) | 2)


def test_cells_share_their_variables(session):
    assert session.run("import math\nx = math.factorial(5)").status == "ok"
    assert session.run("def f(y): return x + y").status == "ok"
    assert session.run("f(1)").stdout == "121\n"


def test_the_value_of_a_last_expression_is_shown_and_none_is_not(session):
    assert session.run("x = 1\n'a' * 3").stdout == "'aaa'\n"
    assert session.run("_ + 'b'").stdout == "'aaab'\n"
    assert session.run("None").stdout == ""
    assert session.run("x = 2").stdout == ""
    assert session.run("").status == "ok"


def test_sessions_know_nothing_of_each_other(sandbox):
    with sandbox.session() as one, sandbox.session() as other:
        one.run("x = 1")
        assert "NameError" in other.run("x").stdout
        assert one.run("x").stdout == "1\n"


def test_an_error_is_told_and_loses_nothing(session):
    session.run("x = 1")
    result = session.run("y = 2\n1 / 0")
    assert (result.status, result.lost) == ("error", False)
    assert 'File "cell-2.py", line 2' in result.stdout
    assert "interpreter.py" not in result.stdout
    assert session.run("x + y").stdout == "3\n"


@pytest.mark.parametrize("cell", ["def f(:", "a\0b", "x" * 70_000, "'\ud800'", "(" * 5000])
def test_what_can_not_be_run_loses_nothing(session, cell):
    session.run("x = 1")
    assert session.run(cell).status == "error"
    assert session.run("x").stdout == "1\n"


def test_a_cell_that_takes_too_long_is_interrupted_and_loses_nothing(session):
    session.run("x = 1")
    result = session.run("y = 2\nwhile True: pass", limits=SHORT)
    assert (result.status, result.lost) == ("timeout_cpu", False)
    assert "KeyboardInterrupt" in result.stdout
    assert 0.25 < result.cpu < 3
    result = session.run("import time\ntime.sleep(60)", limits=BRIEF)
    assert (result.status, result.lost, result.host_overload) == ("timeout_wall", False, False)
    assert session.run("x + y").stdout == "3\n"


def test_each_cell_has_the_whole_limit(session):
    busy = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    assert [session.run(busy, limits=SHORT).status for _ in range(3)] == ["ok"] * 3


def test_a_cell_that_can_not_be_interrupted_is_ended_and_says_what_is_lost(session):
    session.run("x = 1")
    code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    result = session.run(code, limits=SHORT)
    assert (result.status, result.lost) == ("timeout_cpu", True)
    result = session.run("x")
    assert (result.status, result.restarted, result.lost) == ("error", True, False)
    assert "NameError" in result.stdout
    assert not session.run("1").restarted


def test_a_handler_of_an_earlier_cell_does_not_shield_a_later_one(session):
    session.run("import signal\nx = signal.signal(signal.SIGINT, signal.SIG_IGN)")
    result = session.run("while True: pass", limits=SHORT)
    assert (result.status, result.lost) == ("timeout_cpu", False)


def test_exit_ends_the_cell_and_not_the_session(session):
    session.run("x = 1")
    assert session.run("import sys; sys.exit()").status == "ok"
    assert session.run("sys.exit('no')").stdout == "no\n"
    assert session.run("x").stdout == "1\n"


@pytest.mark.parametrize(("left", "status"), [(0, "ok"), (3, "error")])
def test_a_cell_that_ends_its_process_loses_the_variables(session, left, status):
    session.run("x = 1")
    result = session.run(f"print('on')\nimport os; os._exit({left})")
    assert (result.status, result.lost, result.stdout) == (status, True, "on\n")
    assert session.run("'x' in globals()").stdout == "False\n"


def test_a_crash_loses_the_variables(session):
    result = session.run("import ctypes; ctypes.string_at(0)")
    assert (result.status, result.signal, result.lost) == ("killed", 11, True)


def test_too_much_output_ends_the_session(session):
    result = session.run("while True: print('x' * 100000)")
    assert (result.status, result.lost) == ("output_limit", True)
    assert session.run("1").restarted


def test_running_out_of_memory_loses_nothing(session):
    session.run("x = 1")
    result = session.run("y = bytearray(2 << 30)")
    assert (result.status, result.lost) == ("memory", False)
    assert session.run("x").stdout == "1\n"


def test_output_of_a_cell_is_its_own(session):
    assert session.run("print('a', end='')").stdout == "a"
    assert session.run("print('b')").stdout == "b\n"


def test_a_session_stands_still_before_and_between_cells(session):
    assert soon(lambda: state(pid_of(session)) == "T")
    code = "import threading\ndef spin():\n    while True: pass\n"
    session.run(code + "threading.Thread(target=spin, daemon=True).start()")
    pid = pid_of(session)
    assert soon(lambda: state(pid) == "T")
    before = cpu_of(pid)
    time.sleep(0.2)
    # Stopping a thread takes a moment of its own.
    assert cpu_of(pid) - before < 0.02
    session.run("import time; time.sleep(0.05)")
    assert cpu_of(pid) > before


FORGERIES = {
    "an early reply": """
import json, os, sys, time
frame = sys._getframe()
while "asked" not in frame.f_locals: frame = frame.f_back
token = frame.f_locals["asked"]["token"]
for _ in range(2): os.write(3, json.dumps({"token": token, "status": "ok"}).encode() + b"\\n")
while True: time.sleep(1)
""",
    "replies": """
import json, os
for number in range(1, 9):
    os.write(3, json.dumps({"token": str(number), "status": "ok"}).encode() + b"\\n")
import time
while True: time.sleep(1)
""",
    "junk": "import os\nos.write(3, b'junk')\nimport time\ntime.sleep(60)",
    "nothing": "import os\nos.write(3, b'')\nimport time\ntime.sleep(60)",
    "a flood": "import os\nwhile True: os.write(3, b'x' * 1000)",
    "a huge one": "import os\nos.write(3, b'{' * 100000)\nimport time\ntime.sleep(60)",
    "a status of its own": 'import os\nos.write(3, b\'{"cell":1,"status":"best"}\\n\')',
    "a closed channel": "import os\nos.close(3)\nimport time\ntime.sleep(60)",
    **{
        f"a status that is {status}": f"""
import json, os, sys
frame = sys._getframe()
while "asked" not in frame.f_locals: frame = frame.f_back
token = frame.f_locals["asked"]["token"]
os.write(3, json.dumps({{"token": token, "status": {status}}}).encode() + b"\\n")
"""
        for status in ("[]", "{}", "None", "1.5")
    },
    "deep": "import os\nos.write(3, b'[' * 1000 + b'\\n')\nimport time\ntime.sleep(60)",
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_forging_replies_ends_the_session_or_nothing(sandbox, kind):
    limits = Limits(cpu=0.5, wall=1.0)
    with sandbox.session() as opened:
        results = [opened.run(FORGERIES[kind], limits=limits)]
        results += [opened.run("40 + 2", limits=limits) for _ in range(3)]
    assert all(result.status != "sandbox_failure" for result in results)
    # What a cell of the code's own may claim is that it ended; never what a later one printed.
    assert (results[-1].status, results[-1].stdout) == ("ok", "42\n")


def test_reading_the_channel_harms_only_its_own_session(sandbox):
    with sandbox.session() as opened:
        limits = Limits(cpu=0.5, wall=0.6)
        code = "import os, threading\nthreading.Thread(target=os.read, args=(3, 99)).start()"
        opened.run(code, limits=limits)
        assert opened.run("1", limits=limits).status in ("ok", "timeout_wall", "killed")
        assert sandbox.run("print(1)").status == "ok"


def test_closing_or_forgetting_a_session_ends_its_process(sandbox):
    opened = sandbox.session()
    opened.run("1")
    first = pid_of(opened)
    opened.close()
    opened.close()
    assert gone(first)
    with pytest.raises(UsageError, match="closed"):
        opened.run("1")
    opened = sandbox.session()
    second = pid_of(opened)
    del opened
    gc.collect()
    assert gone(second)


def test_an_idle_session_is_ended_and_the_next_cell_says_so():
    with box(ttl=0.2) as made, made.session() as opened:
        opened.run("x = 1")
        assert gone(pid_of(opened))
        result = opened.run("'x' in globals()")
        assert (result.status, result.stdout, result.restarted) == ("ok", "False\n", True)


def test_a_busy_session_is_not_idle():
    with box(ttl=0.2) as made, made.session() as opened:
        assert opened.run("import time; time.sleep(0.8); x = 1").status == "ok"
        assert not opened.run("x").restarted


def test_many_sessions_live_at_once(sandbox):
    before = len(os.listdir("/proc/self/fd"))
    opened = [sandbox.session() for _ in range(64)]
    for number, one in enumerate(opened):
        one.run(f"x = {number}")
    assert [one.run("x").stdout for one in opened] == [f"{n}\n" for n in range(64)]
    for one in opened:
        one.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_cells_from_several_threads_run_one_after_the_other(session):
    session.run("x = 0")
    threads = [
        threading.Thread(
            target=session.run, args=("y = x; import time; time.sleep(.01); x = y + 1",)
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.run("x").stdout == "8\n"


def test_closing_ends_the_cell_that_runs(sandbox):
    opened, results = sandbox.session(), []
    cell = "import time; time.sleep(30)"
    thread = threading.Thread(target=lambda: results.append(opened.run(cell)))
    thread.start()
    time.sleep(0.1)
    opened.close()
    thread.join(20)
    assert (results[0].status, results[0].lost) == ("killed", True)


def test_sessions_at_rest_take_no_place_of_a_call():
    with box(slots=1) as made:
        opened = [made.session() for _ in range(3)]
        assert [one.run("1").status for one in opened] == ["ok"] * 3
        assert made.run("print(1)").status == "ok"


def test_the_channel_tells_nothing_of_who_is_at_its_other_end(sandbox):
    code = """
import socket
own = socket.socket(fileno=3)
found = []
for option in range(256):
    try:
        own.getsockopt(socket.SOL_SOCKET, option, 64)
    except OSError:
        continue
    found.append(option)
print(found)
_ = own.detach()
"""
    with sandbox.session() as opened:
        assert opened.run(code).stdout == "[3, 4, 7, 8, 38, 39]\n"


def test_a_cell_that_waits_for_its_turn_does_not_run_once_its_session_is_closed():
    with box(slots=1) as held, held.session() as other, held.session() as opened:
        slow, _ = in_thread(lambda: other.run("import time; time.sleep(1)"))
        time.sleep(0.2)
        refused = []

        def run():
            try:
                opened.run("1")
            except UsageError as error:
                refused.append(str(error))

        waiting = threading.Thread(target=run)
        waiting.start()
        time.sleep(0.1)
        opened.close()
        waiting.join(20)
        slow.join(20)
    assert refused == ["session: it is closed. Begin another."]


def test_a_copy_of_the_host_leaves_a_session_that_was_busy_alone(sandbox):
    with sandbox.session() as opened:
        opened.run("x = 41")
        busy, results = in_thread(lambda: opened.run("import time; time.sleep(0.5); x + 1"))
        time.sleep(0.1)
        with warnings.catch_warnings():
            # Forking with threads is what is tested.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            try:
                opened.run("1")
                os._exit(1)
            except UsageError as error:
                opened.close()
                os._exit(0 if "belongs to the process that began it" in str(error) else 2)
        assert os.waitpid(pid, 0)[1] == 0
        busy.join(20)
        assert results[0].stdout == "42\n"
