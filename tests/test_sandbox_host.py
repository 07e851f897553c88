import contextlib
import gc
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import warnings
from pathlib import Path

import pytest

from agentrl.sandbox import Limits
from agentrl.sandbox.probe import probe
from tests.boxes import box, children, descendants, gone, server_of, soon


@pytest.fixture
def sandbox():
    with box(patience=1.0) as made:
        yield made


def in_thread(work):
    results = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    return thread, results


def run_program(code, **options):
    code = "from tests.boxes import *\n" + textwrap.dedent(code)
    root = Path(__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
        **options,
    )
    assert not done.stderr, done.stderr
    return done.stdout


# A server that fails.


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_call_whose_server_fails_is_lost_and_the_next_one_works(sandbox, number):
    server = server_of(sandbox)
    thread, results = in_thread(
        lambda: sandbox.run("import time; time.sleep(30)", limits=Limits(wall=0.5))
    )
    assert soon(lambda: children(server))
    (child,) = children(server)
    os.kill(server, number)
    thread.join(20)
    (result,) = results
    assert (result.status, result.stdout) == ("sandbox_failure", "")
    assert "fork server" in result.problem
    assert gone(child)
    assert gone(server)
    assert sandbox.run("print(1)").stdout == "1\n"


def test_a_child_that_is_ended_before_it_read_its_code_harms_nobody_else(sandbox):
    server = server_of(sandbox)
    with sandbox.session() as opened:
        opened.run("x = 1")
        for _ in range(40):
            assert sandbox.run("pass", limits=Limits(wall=1e-6)).status in ("timeout_wall", "ok")
        assert opened.run("x").stdout == "1\n"
    assert server_of(sandbox) == server


def test_a_host_with_stricter_limits_of_its_own_runs_code():
    said = run_program("""
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        from agentrl.sandbox import Limits
        print(box(limits=Limits(files=4096)).run("print(1)").stdout)
    """)
    assert said.strip() == "1"


def test_a_server_that_died_while_idle_costs_no_call(sandbox):
    server = server_of(sandbox)
    os.kill(server, signal.SIGKILL)
    assert gone(server)
    assert sandbox.run("print(1)").stdout == "1\n"


def test_a_server_that_stopped_while_idle_costs_one_call(sandbox):
    server = server_of(sandbox)
    os.kill(server, signal.SIGSTOP)
    result = sandbox.run("print(1)")
    assert (result.status, "1 seconds" in result.problem) == ("sandbox_failure", True)
    assert gone(server)
    assert sandbox.run("print(1)").stdout == "1\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_session_whose_server_fails_says_so_once(sandbox, number):
    with sandbox.session() as opened:
        opened.run("x = 1")
        server, child = server_of(sandbox), opened._held.child.pid
        os.kill(server, number)
        if number == signal.SIGKILL:
            assert gone(child)
            result = opened.run("x")
            assert (result.status, result.lost) == ("sandbox_failure", True)
        else:
            # The session does not need its server while it lives.
            assert opened.run("x").stdout == "1\n"
            os.kill(server, signal.SIGKILL)
            assert gone(child)
            assert opened.run("x").status == "sandbox_failure"
        result = opened.run("print(1)")
        assert (result.status, result.stdout, result.restarted) == ("ok", "1\n", True)


def test_a_cell_in_whose_midst_the_server_dies_is_lost(sandbox):
    with sandbox.session() as opened:
        opened.run("x = 1")
        thread, results = in_thread(lambda: opened.run("import time; time.sleep(30)"))
        time.sleep(0.2)
        os.kill(server_of(sandbox), signal.SIGKILL)
        thread.join(20)
        assert (results[0].status, results[0].lost) == ("sandbox_failure", True)
        assert opened.run("1").restarted


@contextlib.contextmanager
def rivals(sandbox, count):
    """Programs that want the one processor on which the sandbox may run."""
    core = {min(os.sched_getaffinity(0))}
    os.sched_setaffinity(server_of(sandbox), core)
    spin = f"import os\nos.sched_setaffinity(0, {core})\nwhile True: pass"
    started = [
        # Each a group of its own to the scheduler, as the sandbox is.
        subprocess.Popen([sys.executable, "-c", spin], start_new_session=True)
        for _ in range(count)
    ]
    try:
        time.sleep(0.3)
        yield
    finally:
        for rival in started:
            rival.kill()
            rival.wait()


def test_a_busy_machine_is_told_from_code_that_waits(sandbox):
    with rivals(sandbox, 6):
        result = sandbox.run("while True: pass", limits=Limits(cpu=2.0, wall=1.5))
    assert (result.status, result.host_overload) == ("timeout_wall", True)


def test_time_spent_waiting_for_a_processor_is_not_the_codes(sandbox):
    with rivals(sandbox, 2):
        result = sandbox.run("while True: pass", limits=Limits(cpu=0.6, wall=0.8))
    assert result.status == "timeout_cpu"
    assert result.seconds > 0.8


def test_code_can_not_pass_its_own_waiting_off_as_the_machines(sandbox):
    code = """
import os, threading, time
def spin():
    while time.process_time() < 0.4:
        os.sched_yield()
for _ in range(10):
    threading.Thread(target=spin, daemon=True).start()
spin()
time.sleep(60)
"""
    limits = Limits(cpu=0.5, wall=2.0)
    runs = [in_thread(lambda: sandbox.run(code, limits=limits)) for _ in range(4)]
    for thread, results in runs:
        thread.join(60)
        assert results[0].status in ("timeout_wall", "timeout_cpu")
        assert not results[0].host_overload


# What is left behind.


def residue(made):
    """What a leak would show in, but for memory."""
    server = server_of(made)
    return {
        "host fds": len(os.listdir("/proc/self/fd")),
        "server fds": len(os.listdir(f"/proc/{server}/fd")),
        "server": server,
        "processes": sorted(descendants()),
        "threads": threading.active_count(),
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "server mounts": len(Path(f"/proc/{server}/mountinfo").read_text().splitlines()),
        "temporary files": sorted(os.listdir(tempfile.gettempdir())),
    }


def memory(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def leaves_nothing(count):
    """So many calls, in a process that does nothing else."""
    codes = [
        "print('x' * 1000)",
        "1 / 0",
        "import os; os._exit(3)",
        "import threading as t, time\nt.Thread(target=time.sleep, args=(9,), daemon=True).start()",
        "import os; os.closerange(0, 64)",
        "open('file', 'w').write('x' * 100000)",
    ]
    made = box()
    for code in codes * 3:
        made.run(code)
    gc.collect()
    before, sizes = residue(made), (memory(os.getpid()), memory(server_of(made)))
    for number in range(count):
        made.run(codes[number % len(codes)])
        if number % 50 == 0:
            with made.session() as opened:
                opened.run("x = 1")
    gc.collect()
    assert soon(lambda: residue(made) == before), (before, residue(made))
    after = (memory(os.getpid()), memory(server_of(made)))
    assert all(new - old < 4 << 20 for new, old in zip(after, sizes, strict=True))


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_calls_leave_nothing_behind(tmp_path, count):
    said = run_program(f"""
        import tempfile
        from tests.test_sandbox_host import leaves_nothing
        tempfile.tempdir = {str(tmp_path)!r}
        leaves_nothing({count})
        print("nothing")
    """)
    assert said == "nothing\n"


def test_closing_ends_every_process():
    before = set(descendants())
    made = box()
    opened = made.session()
    opened.run("x = 1")
    thread, results = in_thread(lambda: made.run("import time; time.sleep(30)"))
    assert soon(lambda: len(children(server_of(made))) == 2)
    made.close()
    thread.join(20)
    assert results[0].status == "sandbox_failure"
    assert soon(lambda: set(descendants()) == before)


def test_a_sandbox_that_nobody_holds_ends_its_processes():
    before = set(descendants())
    made = box()
    made.run("1")
    del made
    gc.collect()
    assert soon(lambda: set(descendants()) == before)


def test_a_program_that_ends_leaves_no_process():
    said = run_program("""
        made = box()
        opened = made.session()
        opened.run("x = 1")
        print(*descendants())
    """)
    assert len(said.split()) == 2
    assert all(gone(pid) for pid in said.split())


def test_a_program_that_is_killed_leaves_no_process():
    code = """
        import os, signal, sys
        made = box()
        opened = made.session()
        opened.run("x = 1")
        print(*descendants(), flush=True)
        if sys.argv[1:]: os.kill(server_of(made), signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    said = run_program(code)
    assert len(said.split()) == 2
    assert all(gone(pid) for pid in said.split())
    said = run_program("import sys; sys.argv.append('stop')\n" + textwrap.dedent(code))
    assert all(gone(pid) for pid in said.split())


# Threads and forks of the host.


def test_a_server_outlives_the_thread_that_started_it():
    made = []
    thread = threading.Thread(target=lambda: made.append(box()))
    thread.start()
    thread.join()
    server = server_of(made[0])
    time.sleep(0.1)
    assert made[0].run("print(1)").stdout == "1\n"
    assert server_of(made[0]) == server
    made[0].close()


def test_a_fork_of_the_host_has_a_server_of_its_own():
    said = run_program("""
        import os, warnings
        from agentrl.errors import UsageError
        warnings.simplefilter("ignore")
        made = box()
        opened = made.session()
        opened.run("x = 1")
        server = server_of(made)
        pid = os.fork()
        if pid == 0:
            ok = made.run("print(2)").stdout == "2\\n" and server_of(made) != server
            try:
                opened.run("x")
            except UsageError as error:
                ok = ok and "belongs to the process that began it" in str(error)
            mine = server_of(made)
            made.close()
            os._exit(0 if ok and gone(mine) else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        print(server_of(made) == server, made.run("print(3)").stdout, opened.run("x").stdout)
    """)
    assert said.split() == ["0", "True", "3", "1"]


def test_starting_a_server_does_not_copy_a_large_host():
    # `subprocess` copies the host's page tables only where it can't use vfork; a copy of this
    # host would exceed what it may map.
    said = run_program("""
        import mmap, resource, subprocess
        assert subprocess._USE_VFORK
        held = mmap.mmap(-1, 256 << 20)
        for at in range(0, len(held), 4096): held[at] = 1
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        made = box()
        for at in range(0, len(held), 4096): held[at] = 2
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults)
    """)
    # After a copy every page that is written faults once more: 65536 of them.
    assert int(said) < 30_000


def test_sixty_four_threads_finish(sandbox):
    statuses = []
    codes = ["sum(range(10 ** 5))", "1 / 0", "print('x' * 10 ** 5)", "import os; os._exit(0)"]

    def work(number):
        statuses.append((number % 4, sandbox.run(codes[number % 4]).status))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(statuses) == sorted(
        (kind, status) for kind, status in enumerate(["ok", "error", "ok", "ok"]) for _ in range(16)
    )


def test_servers_that_keep_dying_cost_calls_and_nothing_else(sandbox):
    results, over = [], threading.Event()

    def work():
        while not over.is_set():
            results.append(sandbox.run("print(1)"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        time.sleep(0.1)
        # Between two servers there is none.
        with contextlib.suppress(ProcessLookupError, AttributeError):
            os.kill(server_of(sandbox), signal.SIGKILL)
    over.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert {result.status for result in results} <= {"ok", "sandbox_failure"}
    assert sum(result.status == "ok" for result in results) > 8
    assert sandbox.run("print(1)").stdout == "1\n"


def test_a_call_that_is_given_up_ends_its_process(sandbox):
    server = server_of(sandbox)
    child = sandbox._local.begin(Limits(), b"import time; time.sleep(30)")[0]
    pid = child.pid
    # As when the thread that waits is interrupted, and as when it vanishes.
    child.report.close()
    assert gone(pid)
    assert server_of(sandbox) == server
    child.close()
    assert sandbox.run("print(1)").stdout == "1\n"


@pytest.mark.parametrize("data", [b"junk", b"{}\n", b'{"limits":{}}\n'])
def test_requests_that_are_none_harm_nobody(sandbox, data):
    sandbox._local._server._control.send(data)
    assert sandbox.run("print(1)").stdout == "1\n"


def test_a_leak_is_named_in_the_refusal():
    # Where nothing is held, the probe sees code get out.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = box(level=1, unsafe=True)
    with made:
        assert "not held" in probe(lambda code, limits: made.run(code, limits=limits))


def test_what_a_call_leaves_running_where_it_may_fork_is_ended():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = box(level=1, unsafe=True)
    code = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 64)
        time.sleep(60)
    os._exit(0)
os.wait()
"""
    with made:
        before = set(descendants())
        assert made.run(code).status == "ok"
        assert soon(lambda: set(descendants()) == before)


def test_a_host_that_can_open_no_more_files_says_so():
    said = run_program("""
        import os, resource
        made = box()
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        held = []
        try:
            while True: held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        for spare in range(8):
            print(made.run("print(1)").status)
            os.close(held.pop())
        print(made.run("print(1)").status)
    """)
    statuses = said.split()
    assert statuses[0] == "sandbox_failure"
    assert statuses[-1] == "ok"
