"""Open the switches of the kernel for writing. Nothing is written to them."""

import glob

switches = ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/self/oom_score_adj"]
switches += ["/proc/self/uid_map", "/proc/self/attr/current", "/sys/kernel/uevent_helper"]
switches += [
    "/sys/fs/cgroup/cgroup.procs",
    "/proc/sys/vm/drop_caches",
    "/proc/self/coredump_filter",
]
switches += glob.glob("/sys/fs/cgroup/*/release_agent") + glob.glob("/proc/sys/kernel/*")[:20]
for path in switches:
    if works(os.open, path, os.O_WRONLY):
        pwn(f"opened {path} for writing")
