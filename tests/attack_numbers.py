"""Numbers of system calls, written down once more: an attack must not share a mistake of the jail.

In    the name of a machine, as `uname` says it
Out   number by name; NEVER, the calls that no code in a sandbox has any business with
Not   complete
"""

from __future__ import annotations

NOWHERE = 100_000
"""The number of a call that a machine lacks."""

_TABLE = """
accept 43 202
acct 163 89
add_key 248 217
adjtimex 159 171
arch_prctl 158 -
bind 49 200
bpf 321 280
brk 12 214
cachestat 451 451
capget 125 90
capset 126 91
chroot 161 51
clock_adjtime 305 266
clock_settime 227 112
clone 56 220
clone3 435 435
connect 42 203
delete_module 176 106
execve 59 221
execveat 322 281
fanotify_init 300 262
fanotify_mark 301 263
fchmodat 268 53
fchmodat2 452 452
file_setattr 469 469
finit_module 313 273
fork 57 -
fsconfig 431 431
fsmount 432 432
fsopen 430 430
fspick 433 433
futex 202 98
futimesat 261 -
getpid 39 172
init_module 175 105
inotify_add_watch 254 27
inotify_init 253 -
inotify_init1 294 26
io_setup 206 0
io_submit 209 2
io_uring_enter 426 426
io_uring_register 427 427
io_uring_setup 425 425
ioperm 173 -
iopl 172 -
ioprio_set 251 30
kcmp 312 272
kexec_file_load 320 294
kexec_load 246 104
keyctl 250 219
kill 62 129
listen 50 201
listmount 458 458
lookup_dcookie 212 18
map_shadow_stack 453 453
mbind 237 235
memfd_create 319 279
memfd_secret 447 447
migrate_pages 256 238
mknodat 259 33
mlock 149 228
mlockall 151 230
mmap 9 222
modify_ldt 154 -
mount 165 40
mount_setattr 442 442
move_mount 429 429
move_pages 279 239
mq_open 240 180
mq_unlink 241 181
mremap 25 216
msgctl 71 187
msgget 68 186
munmap 11 215
name_to_handle_at 303 264
nfsservctl 180 42
open_by_handle_at 304 265
open_tree 428 428
open_tree_attr 467 467
perf_event_open 298 241
personality 135 92
pidfd_getfd 438 438
pidfd_open 434 434
pidfd_send_signal 424 424
pivot_root 155 41
pkey_alloc 330 289
prctl 157 167
process_madvise 440 440
process_mrelease 448 448
process_vm_readv 310 270
process_vm_writev 311 271
ptrace 101 117
quotactl 179 60
quotactl_fd 443 443
remap_file_pages 216 234
request_key 249 218
rt_sigqueueinfo 129 138
rt_tgsigqueueinfo 297 240
sched_setaffinity 203 122
sched_setattr 314 274
sched_setparam 142 118
sched_setscheduler 144 119
seccomp 317 277
semctl 66 191
semget 64 190
set_mempolicy 238 237
setdomainname 171 162
setfsuid 122 151
sethostname 170 161
setns 308 268
setpriority 141 140
setrlimit 160 164
settimeofday 164 170
setxattrat 463 463
shmat 30 196
shmctl 31 195
shmget 29 194
socket 41 198
socketpair 53 199
splice 275 76
statmount 457 457
swapoff 168 225
swapon 167 224
syslog 103 116
tee 276 77
tgkill 234 131
timer_create 222 107
timer_settime 223 110
tkill 200 130
umount2 166 39
unshare 272 97
userfaultfd 323 282
uselib 134 -
utime 132 -
utimensat 280 88
utimes 235 -
vmsplice 278 75
"""

_NEVER = (
    "accept acct add_key adjtimex bind bpf chroot clock_adjtime clock_settime connect "
    "delete_module execve execveat fanotify_init fanotify_mark finit_module fsconfig fsmount "
    "fsopen fspick init_module inotify_init1 io_setup io_submit io_uring_enter "
    "io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl kill "
    "listen listmount lookup_dcookie map_shadow_stack mbind memfd_create memfd_secret "
    "migrate_pages mknodat mlockall modify_ldt mount mount_setattr move_mount move_pages mq_open "
    "msgget name_to_handle_at nfsservctl open_by_handle_at open_tree open_tree_attr "
    "perf_event_open pidfd_getfd pidfd_open pidfd_send_signal pivot_root "
    "process_madvise process_mrelease process_vm_readv process_vm_writev ptrace quotactl "
    "quotactl_fd remap_file_pages request_key sched_setaffinity sched_setattr "
    "sched_setparam sched_setscheduler seccomp semget set_mempolicy setdomainname sethostname "
    "setns setpriority setrlimit settimeofday shmat shmget socket splice statmount swapoff swapon "
    "syslog tee umount2 unshare userfaultfd uselib vmsplice"
)
NEVER = tuple(_NEVER.split())

# Numbers that answer without a word, or never: they are tried by attacks of their own.
_UNSWEPT = {"x86_64": {15, 34, 57, 58, 60, 153, 162, 231}, "aarch64": {58, 81, 93, 94, 139}}


def numbers(machine: str) -> dict[str, int]:
    """Number of each call; NOWHERE for what the machine lacks."""
    column = 2 if machine == "aarch64" else 1
    rows = (row.split() for row in _TABLE.split("\n") if row)
    return {row[0]: int(row[column]) if row[column] != "-" else NOWHERE for row in rows}


def sweep(machine: str, listed: frozenset[int]) -> list[int]:
    """Numbers below 500 that are not on a list, and may be tried with nonsense."""
    return [n for n in range(500) if n not in listed | _UNSWEPT.get(machine, set())]
