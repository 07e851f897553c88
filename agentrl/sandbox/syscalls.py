"""Calls of the kernel: their numbers, and which of them a policy's code may make.

In    the kind of processor
Out   numbers by name; RULES, what is allowed with which arguments and from which level on
Not   a list of what is forbidden: whatever is not named here is refused with EPERM
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

WORD = 0xFFFF_FFFF
OWN_PID = -1
"""Among the values of a check: the process's own number, known when the filter is made."""


@dataclass(frozen=True, slots=True)
class Check:
    """What one argument must be. The kernel itself reads no more than is compared."""

    argument: int
    values: tuple[int, ...]
    mask: int = WORD
    """Bits of the lower word that are compared."""
    whole: bool = False
    """The upper word must be zero: for pointers and longs."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Calls that are answered in the same way."""

    names: str
    """Separated by blanks; those a processor does not have are left out."""
    checks: tuple[Check, ...] = ()
    level: int = 2
    """From this level of isolation on."""
    answer: int | None = None
    """Error answered in place of the call, 0 for a success that is only claimed; None makes it."""


def _without(argument: int, bits: int) -> Check:
    return Check(argument, (0,), bits)


_THREAD = 0x3D_0F00
"""The flags of pthread_create: memory, files, signals and the thread group are shared."""
_DETACHED, _CLONE_THREAD = 0x40_0000, 0x1_0000
_O_DIRECT = 0x1_4000
"""0x4000, and on ARM 0x1_0000."""
_O_ASYNC, _MAP_HUGETLB, _MSG_OOB, _F_DUPFD_CLOEXEC = 0x2000, 0x4_0000, 1, 1030

_SOCKET_OPTIONS = (3, 4, 7, 8, 38, 39)
"""Of SOL_SOCKET: type, error, sizes of buffers, protocol, domain."""

RULES: tuple[Rule, ...] = (
    # Reading. Which files is decided by Landlock and, at level 3, by what is mounted. What
    # Landlock does not see (stat, access, readlink, chdir) tells no more than that a name exists.
    Rule("read pread64 readv preadv lseek open openat close close_range getcwd"),
    Rule("stat fstat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat"),
    Rule("getdents64 chdir fchdir"),
    # Writing to what is open already: at level 2 that is the output.
    Rule("write pwrite64 writev pwritev dup dup2 dup3"),
    # fcntl could have a signal sent to others (F_SETOWN, F_SETSIG, F_NOTIFY), hold up whoever
    # opens a file (F_SETLEASE) and pin memory (F_SETPIPE_SZ): only the plain requests, and no
    # signals on input, nor an output in packets, of which each would cost the host a call.
    Rule("fcntl", (Check(1, (0, 1, 2, 3, _F_DUPFD_CLOEXEC)),)),
    Rule("fcntl", (Check(1, (4,)), _without(2, _O_ASYNC | _O_DIRECT))),
    # A lock on a file that others see too would hold them up and carry word between episodes; on
    # one in the scratch folder there is nobody to lock out: it is granted, and not taken.
    Rule("fcntl", (Check(1, (6, 7)),), level=3, answer=0),
    # Of a device's requests: is it a terminal, how wide, how much can be read, close on exec,
    # do not block. TIOCSTI types on the terminal it is made on, and drivers are a wide door.
    Rule("ioctl", (Check(1, (0x5401, 0x541B, 0x5450, 0x5451, 0x5421, 0x5413)),)),
    # Names, sizes, dates and modes change only at level 3, where all but the scratch folder is
    # mounted read-only. Landlock does not cover modes and dates, and below level 3 the code may
    # own the files that it sees. No links, devices, sockets or owners in any case.
    Rule("mkdir mkdirat rmdir unlink unlinkat rename renameat", level=3),
    Rule("renameat2", (Check(4, (0, 1)),), level=3),
    Rule("ftruncate truncate fallocate fsync fdatasync umask msync", level=3),
    Rule("chmod fchmod fchmodat utimensat", level=3),
    # Copying a file asks for these and goes on when they do not exist.
    Rule("getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr", answer=errno.EOPNOTSUPP),
    Rule("fchmodat2 openat2", answer=errno.ENOSYS),
    # Memory. Huge pages are a pool of the whole machine. Of the advice only what concerns the
    # caller's own pages: merging equal pages would tell what other processes hold.
    Rule("mmap", (_without(3, _MAP_HUGETLB),)),
    Rule("mprotect munmap mremap brk"),
    Rule("madvise", (Check(2, (0, 1, 2, 3, 4, 8, 10, 11, 14, 15, 16, 17, 22, 23, 102, 103)),)),
    # Threads, but no processes: clone with the flags of a thread and nothing besides. clone3
    # hides its flags in memory, where a filter cannot look; without it the C library uses clone.
    Rule(
        "clone",
        (
            Check(0, (0,), WORD & ~(_THREAD | _DETACHED), whole=True),
            Check(0, (_CLONE_THREAD,), _CLONE_THREAD),
        ),
    ),
    Rule("clone3", answer=errno.ENOSYS),
    Rule("exit exit_group set_robust_list rseq set_tid_address sched_yield gettid"),
    # Waiting and waking, without the operations that lend priority, a source of kernel faults.
    # Only threads of this process are woken (0x80): a page of a file is the same one for all who
    # read it. Joining a thread waits without that mark, as the kernel is what wakes there.
    Rule("futex", (Check(1, (0, 9), 0x7F),)),
    Rule("futex", (Check(1, (0x81, 0x83, 0x84, 0x85, 0x8A), 0xFF),)),
    # Asking about oneself. Of limits: reading one's own.
    Rule("getpid getppid getuid geteuid getgid getegid getgroups getresuid getresgid getpgrp"),
    Rule("getcpu uname sysinfo getrlimit getrandom times"),
    Rule("getrusage", (Check(0, (0, 1)),)),
    Rule("sched_getaffinity", (Check(0, (0, OWN_PID)),)),
    Rule("prlimit64", (Check(0, (0, OWN_PID)), Check(2, (0,), whole=True))),
    # Names of threads and of memory; no capability, no dumping, no parent's death.
    Rule("prctl", (Check(0, (15, 16, 0x53564D41)),)),
    # Time. A negative clock is another process's.
    Rule("clock_gettime clock_getres clock_nanosleep", (_without(0, 0x8000_0000),)),
    Rule("gettimeofday time nanosleep getitimer setitimer alarm"),
    # Signals: how they are met, and sending them to oneself. timer_create and the queueing
    # calls hold kernel memory and name targets.
    Rule("rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend"),
    Rule("sigaltstack pause restart_syscall"),
    Rule("tgkill", (Check(0, (OWN_PID,)),)),
    # Waiting on descriptors, and the pair of sockets that asyncio wakes itself with: streams
    # only (a datagram can name its receiver), no receiver, no urgent data, no descriptors.
    Rule("poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait"),
    Rule("eventfd2 pipe pipe2 shutdown getsockname getpeername"),
    Rule("socketpair", (Check(0, (1,)), Check(1, (1,), 0xF))),
    Rule("sendto", (_without(3, _MSG_OOB), Check(4, (0,), whole=True))),
    Rule("recvfrom", (_without(3, _MSG_OOB),)),
    # Not who is at the other end (SO_PEERCRED, SO_PEERPIDFD), which is the host.
    Rule("getsockopt", (Check(1, (1,)), Check(2, _SOCKET_OPTIONS))),
)


@cache
def numbers(machine: str) -> Mapping[str, int]:
    """Return the numbers of the calls, by name.

    Args:
        machine: as `os.uname().machine` has it.

    Raises:
        OSError: nothing is known of this kind of processor.
    """
    if machine not in _MACHINES:
        known = " and ".join(_MACHINES)
        raise OSError(errno.ENOSYS, f"seccomp: no table for {machine}, only for {known}")
    column = 1 + _MACHINES.index(machine)
    rows = (row.split() for row in _NUMBERS.replace("\n", " ").split(", "))
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


_MACHINES = ("x86_64", "aarch64")
_NUMBERS = """
read 0 63, pread64 17 67, readv 19 65, preadv 295 69, lseek 8 62, open 2 -,
openat 257 56, close 3 57, close_range 436 436, stat 4 -, fstat 5 80, lstat 6 -,
newfstatat 262 79, statx 332 291, access 21 -, faccessat 269 48, faccessat2 439 439,
readlink 89 -, readlinkat 267 78, getdents64 217 61, getcwd 79 17, chdir 80 49, fchdir 81 50,
write 1 64, pwrite64 18 68, writev 20 66, pwritev 296 70, dup 32 23,
dup2 33 -, dup3 292 24, fcntl 72 25, ioctl 16 29, mkdir 83 -, mkdirat 258 34, rmdir 84 -,
unlink 87 -, unlinkat 263 35, rename 82 -, renameat 264 38, renameat2 316 276, ftruncate 77 46,
truncate 76 45, fallocate 285 47, fsync 74 82, fdatasync 75 83, umask 95 166, chmod 90 -,
fchmod 91 52, fchmodat 268 53, utimensat 280 88, msync 26 227, getxattr 191 8, lgetxattr 192 9,
fgetxattr 193 10, listxattr 194 11, llistxattr 195 12, flistxattr 196 13, mmap 9 222,
mprotect 10 226, munmap 11 215, mremap 25 216, brk 12 214, madvise 28 233, clone 56 220,
clone3 435 435, exit 60 93, exit_group 231 94, futex 202 98, set_robust_list 273 99,
rseq 334 293, set_tid_address 218 96, sched_yield 24 124, gettid 186 178, getpid 39 172,
getppid 110 173, getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177,
getgroups 115 158, getresuid 118 148, getresgid 120 150, getpgrp 111 -,
sched_getaffinity 204 123, getcpu 309 168, uname 63 160, sysinfo 99 179, getrusage 98 165,
getrlimit 97 163, prlimit64 302 261, getrandom 318 278, times 100 153, prctl 157 167,
clock_gettime 228 113, clock_getres 229 114, clock_nanosleep 230 115, gettimeofday 96 169,
time 201 -, nanosleep 35 101, getitimer 36 102, setitimer 38 103, alarm 37 -,
rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136,
rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132, pause 34 -,
tgkill 234 131, restart_syscall 219 128, poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72,
epoll_create 213 -, epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -,
epoll_pwait 281 22, eventfd2 290 19, pipe 22 -, pipe2 293 59, socketpair 53 199, sendto 44 206,
recvfrom 45 207, shutdown 48 210, getsockname 51 204, getpeername 52 205, getsockopt 55 209,
fchmodat2 452 452, openat2 437 437, unshare 272 97, mount 165 40, umount2 166 39,
setns 308 268, pivot_root 155 41, mount_setattr 442 442, open_tree 428 428, move_mount 429 429,
fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433, chroot 161 51,
landlock_create_ruleset 444 444, landlock_add_rule 445 445, landlock_restrict_self 446 446,
seccomp 317 277, capget 125 90, capset 126 91, sethostname 170 161, socket 41 198,
connect 42 203, kill 62 129, ptrace 101 117, process_vm_readv 310 270,
process_vm_writev 311 271, fork 57 -, vfork 58 -, execve 59 221, execveat 322 281,
memfd_create 319 279, io_uring_setup 425 425, bpf 321 280, perf_event_open 298 241,
userfaultfd 323 282, keyctl 250 219, personality 135 92, name_to_handle_at 303 264,
open_by_handle_at 304 265, timer_create 222 107, flock 73 32, sendmsg 46 211, recvmsg 47 212,
splice 275 76, vmsplice 278 75, pidfd_open 434 434, pidfd_getfd 438 438, inotify_init1 294 26,
setpriority 141 140, sched_setaffinity 203 122, statfs 137 43, kcmp 312 272,
process_madvise 440 440, shmget 29 194, mq_open 240 180, chown 92 -, fchownat 260 54,
setxattr 188 5, swapon 167 224
""".strip()
