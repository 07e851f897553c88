"""What is set before torch is loaded, and what is seen of the machine."""

from __future__ import annotations

import os

from agentrl import machine, quiet


def test_what_the_user_has_set_stays():
    environ = {"OMP_NUM_THREADS": "7", "TRANSFORMERS_VERBOSITY": "info"}
    quiet.prepare_cpu(environ, 2)
    quiet.prepare_libraries(environ)
    assert environ["OMP_NUM_THREADS"] == "7"
    assert environ["TRANSFORMERS_VERBOSITY"] == "info"
    assert environ["OMP_WAIT_POLICY"] == "passive"


def test_a_process_that_was_started_with_the_allocator_s_variables_needs_no_restart():
    environ: dict[str, str] = {}
    quiet.prepare_cpu(environ, 2)
    assert not quiet.prepare_cpu(environ, 2)


def test_a_process_that_is_not_the_command_is_never_restarted():
    assert not quiet.can_restart()


def test_cores_are_limited_by_the_container_s_quota(tmp_path):
    quota = tmp_path / "cpu.max"
    quota.write_text("100000 100000\n")
    assert machine.cores(quota) == 1
    quota.write_text("50000 100000\n")
    assert machine.cores(quota) == 1


def test_without_a_quota_cores_are_those_the_process_may_use(tmp_path):
    quota = tmp_path / "cpu.max"
    expected = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert machine.cores(quota) == expected
    quota.write_text("max 100000\n")
    assert machine.cores(quota) == expected
