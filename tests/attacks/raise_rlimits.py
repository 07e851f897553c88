"""Raise one's own limits, or another's."""

import resource

for name in dir(resource):
    if not name.startswith("RLIMIT_"):
        continue
    number = getattr(resource, name)
    soft, hard = resource.getrlimit(number)
    for wanted in ((-1, -1), (hard, -1), (hard + 1, hard + 1) if hard >= 0 else (-1, -1)):
        if hard == -1:
            continue
        if works(resource.setrlimit, number, wanted) and resource.getrlimit(number)[1] != hard:
            pwn(f"{name} is {resource.getrlimit(number)}")
for pid in (os.getppid(), HOST["victim"], HOST["pid"]):
    if pid and pid != os.getpid() and works(resource.prlimit, pid, resource.RLIMIT_NOFILE):
        pwn(f"the limits of {pid}")
