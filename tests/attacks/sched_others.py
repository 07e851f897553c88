"""Push others off the processor, or take a better place in the queue."""

for pid in (HOST["victim"], os.getppid(), HOST["pid"]):
    if pid in (0, os.getpid()):
        continue
    for do in (
        (os.sched_setaffinity, pid, {0}),
        (os.setpriority, os.PRIO_PROCESS, pid, 19),
        (os.sched_setscheduler, pid, os.SCHED_IDLE, os.sched_param(0)),
        (os.sched_getaffinity, pid),
        (os.getpriority, os.PRIO_PROCESS, pid),
        (os.getsid, pid),
        (os.getpgid, pid),
        (call, "ioprio_set", 1, pid, 3 << 13),
        (call, "migrate_pages", pid, 0, 0, 0),
        (call, "kcmp", pid, pid, 0, 0, 0),
    ):
        if works(*do) and do[0] not in (os.getsid, os.getpgid):
            pwn(f"{getattr(do[0], '__name__', do[0])}{do[1:]}")
for do in (
    (os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1)),
    (os.sched_setscheduler, 0, os.SCHED_RR, os.sched_param(1)),
    (os.nice, -5),
    (os.setpriority, os.PRIO_PROCESS, 0, -10),
    (os.setpriority, os.PRIO_USER, 0, 19),
    (call, "ioprio_set", 1, 0, 1 << 13),
):
    if works(*do):
        pwn(f"{getattr(do[0], '__name__', do[0])}{do[1:]}")
