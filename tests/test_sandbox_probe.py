import contextlib
import io
import os
import subprocess
import sys

import pytest

from agentrl.sandbox.probe import HELD, canaries, judge, probe
from agentrl.sandbox.result import Result


def said(text, status="ok", problem=""):
    return Result(status, text, 0.1, 2, problem=problem)


def test_a_probe_tries_every_canary_and_is_content_when_all_are_held():
    tried = []

    def run(code, limits):
        compile(code, "canary", "exec")
        tried.append(limits)
        return said(HELD + "\n")

    assert probe(run, ["numpy"]) == ""
    assert len(tried) == len(canaries(None))


def test_what_got_out_is_said_by_name(tmp_path):
    reading = canaries(tmp_path / "bait")[0]
    why = judge(reading, said("got out: it read /etc/passwd\n", "error"))
    assert why == "reading files is not held: it read /etc/passwd"


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (said("", "sandbox_failure", "seccomp: no"), "it ended with sandbox_failure: seccomp: no"),
        (said("Traceback\nImportError: x", "error"), "it ended with error: ImportError: x"),
        (said(""), "it ended with ok: it said nothing"),
        (said(HELD, "killed"), "it ended with killed: held"),
    ],
)
def test_an_attack_that_was_not_tried_to_its_end_is_not_held(result, why):
    assert judge(canaries(None)[0], result).endswith(why)


def test_a_file_that_changed_outside_is_noticed_whatever_the_code_says():
    def run(code, limits):
        space = {}
        exec(code.partition("def attempt")[0].partition("\n\n")[0], space)
        with open(space["PATH"], "a") as file:
            file.write("x")
        return said(HELD)

    assert "a file outside was changed" in probe(run)


@pytest.mark.skipif(os.name != "posix", reason="canaries are written for POSIX")
def test_in_the_open_the_canaries_for_files_processes_network_and_memory_all_get_out():
    def run(code, limits):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        return said(done.stdout + done.stderr, "ok" if done.returncode == 0 else "error")

    assert probe(run).startswith("reading files is not held: it read /etc/passwd")
    for canary in canaries(None):
        if canary.name in ("using the network", "taking memory", "starting processes"):
            assert "is not held" in judge(canary, run(canary.code, canary.limits))


def test_honest_code_that_can_not_import_what_was_promised_is_told():
    def run(code, limits):
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(code, {})
        except ImportError as error:
            return said(f"ImportError: {error}", "error")
        return said(out.getvalue())

    honest = canaries(None, ["no_such_module"])[-1]
    assert judge(honest, run(honest.code, honest.limits)).endswith(
        "No module named 'no_such_module'"
    )
