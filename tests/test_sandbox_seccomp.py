import errno
import os
import re
import struct
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.sandbox import seccomp
from agentrl.sandbox.syscalls import OWN_PID, RULES, numbers

MACHINES = ("x86_64", "aarch64")
ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
ALLOW, KILL, ERROR = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
EPERM = ERROR | errno.EPERM
PID = 4242

BEYOND = re.split(
    r"\s+",
    """
    execve execveat fork vfork socket connect kill ptrace process_vm_readv process_vm_writev
    unshare setns mount umount2 pivot_root chroot bpf io_uring_setup perf_event_open userfaultfd
    keyctl memfd_create personality open_by_handle_at pidfd_open pidfd_getfd setpriority sendmsg
    recvmsg splice vmsplice sched_setaffinity statfs kcmp process_madvise inotify_init1 shmget
    mq_open chown fchownat setxattr seccomp capset landlock_add_rule timer_create flock
    """.strip(),
)


def answer(program, number, arguments=(), architecture=0xC000_003E):
    """What the kernel's machine would say: a filter's few instructions, interpreted."""
    given = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *(a % 2**64 for a in given))
    at, held = 0, 0
    while True:
        code, then, otherwise, value = struct.unpack_from("HBBI", program, 8 * at)
        at += 1
        if code == 0x20:
            held = struct.unpack_from("I", data, value)[0]
        elif code == 0x54:
            held &= value
        elif code in (0x15, 0x35):
            at += then if (held == value if code == 0x15 else held >= value) else otherwise
        else:
            assert code == 0x06
            return value


def meant(rules, machine, number, arguments):
    """What the rules say, read one by one."""
    named = {name for name, known in numbers(machine).items() if known == number}
    for rule in rules:
        if not named & set(rule.names.split()):
            continue
        fits = True
        for check in rule.checks:
            value = arguments[check.argument] % 2**64
            wanted = {PID if v == OWN_PID else v for v in check.values}
            fits &= value % 2**32 & check.mask in wanted
            fits &= not (check.whole and value >> 32)
        if fits:
            return ALLOW if rule.answer is None else ERROR | rule.answer
    return EPERM


def x86(name, *arguments, level=3):
    program = seccomp.program(level, PID, "x86_64")
    return answer(program, numbers("x86_64")[name], arguments)


INTERESTING = sorted({v % 2**32 for r in RULES for c in r.checks for v in (*c.values, c.mask)})
arguments = st.lists(
    st.one_of(st.sampled_from([*INTERESTING, PID]), st.integers(0, 2**64 - 1)),
    min_size=6,
    max_size=6,
)


@settings(deadline=None)
@given(
    st.sampled_from(MACHINES), st.sampled_from([2, 3]), st.integers(0, 470), st.data(), arguments
)
def test_the_program_says_what_the_rules_say(machine, level, number, data, arguments):
    if data.draw(st.booleans()):
        number = data.draw(st.sampled_from(sorted(numbers(machine).values())))
    rules = [rule for rule in RULES if rule.level <= level]
    program = seccomp.program(level, PID, machine)
    came = answer(program, number, arguments, ARCHITECTURES[machine])
    assert came == meant(rules, machine, number, arguments)


@given(st.integers(0, 2**32 - 1), st.sampled_from(MACHINES))
def test_a_number_that_no_rule_names_is_refused(number, machine):
    named = {numbers(machine).get(name) for rule in RULES for name in rule.names.split()}
    came = answer(seccomp.program(3, PID, machine), number, (), ARCHITECTURES[machine])
    assert came == EPERM or number in named


@pytest.mark.parametrize("name", BEYOND)
@pytest.mark.parametrize("level", [2, 3])
def test_what_reaches_beyond_the_process_is_refused(name, level):
    assert x86(name, level=level) == EPERM


@pytest.mark.parametrize(
    "name", ["chmod", "fchmod", "utimensat", "truncate", "mkdir", "rename", "unlink"]
)
def test_names_modes_and_dates_change_only_where_nothing_lasts(name):
    assert x86(name, level=2) == EPERM
    assert x86(name, level=3) == ALLOW


def test_clone_starts_threads_and_nothing_else():
    thread, new_user, new_pid, vfork, signal_child = 0x3D0F00, 0x10000000, 0x20000000, 0x4000, 17
    assert x86("clone", thread) == ALLOW
    for flags in (0, signal_child, thread | new_user, thread | new_pid, thread | vfork | 0x100):
        assert x86("clone", flags) == EPERM
    assert x86("clone", thread | 1 << 33) == EPERM
    assert x86("clone3") == ERROR | errno.ENOSYS


def test_signals_go_to_the_process_itself():
    assert x86("tgkill", PID, PID, 9) == ALLOW
    assert x86("tgkill", PID + 1, PID + 1, 0) == EPERM


def test_a_datagram_cannot_name_who_receives_it():
    assert x86("sendto", 3, 0, 5, 0, 0) == ALLOW
    assert x86("sendto", 3, 0, 5, 0, 1 << 40) == EPERM
    assert x86("socketpair", 1, 1 | 0x80000) == ALLOW
    assert x86("socketpair", 1, 2) == EPERM
    assert x86("socketpair", 16, 1) == EPERM


def test_input_sends_no_signals():
    set_flags, set_owner, set_signal, lease, notify = 4, 8, 10, 1024, 1026
    assert x86("fcntl", 3, set_flags, 0x800) == ALLOW
    assert x86("fcntl", 3, set_flags, 0x2000) == EPERM
    for request in (set_owner, set_signal, lease, notify):
        assert x86("fcntl", 3, request, 1) == EPERM


def test_limits_can_be_read_and_not_set():
    assert x86("prlimit64", 0, 7, 0, 1 << 40) == ALLOW
    assert x86("prlimit64", 0, 7, 1 << 40, 0) == EPERM
    assert x86("prlimit64", 1, 7, 0, 1 << 40) == EPERM


def test_other_worlds_of_the_processor_are_closed():
    program = seccomp.program(3, PID, "x86_64")
    x32, i386 = 0x4000_0000, 0x4000_0003
    assert answer(program, x32 + 39) == EPERM
    assert answer(program, 20, architecture=i386) == KILL


def test_a_processor_without_a_table_is_named():
    with pytest.raises(OSError, match="no table for riscv64"):
        seccomp.program(3, PID, "riscv64")


def test_a_container_like_filter_refuses_namespaces_and_nothing_else():
    program = seccomp.docker_like("x86_64")
    known = numbers("x86_64")
    assert answer(program, known["clone"], [0x1000_0011]) == EPERM
    assert answer(program, known["clone"], [0x11]) == ALLOW
    assert answer(program, known["unshare"]) == EPERM
    assert answer(program, known["clone3"]) == ERROR | errno.ENOSYS
    assert answer(program, known["socket"]) == ALLOW


def loaded(machine, code):
    """How a process ends that runs a code under the filter of a processor."""
    script = (
        "import os\nfrom agentrl.sandbox import kernel, seccomp\n"
        f"program = seccomp.program(2, os.getpid(), {machine!r})\n"
        "kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)\nseccomp.install(program)\n"
    )
    return subprocess.run([sys.executable, "-c", script + code], check=False).returncode


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's filter is Linux's")
@pytest.mark.parametrize("machine", MACHINES)
def test_the_kernel_takes_the_filter_of_each_processor_and_another_one_s_ends_all(machine):
    end = loaded(machine, "os._exit(7)")
    assert end == (7 if machine == os.uname().machine else -31)
