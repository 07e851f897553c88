"""Hold another process like a debugger."""

for request in (16, 0x4206):
    for pid in (os.getppid(), HOST["victim"]):
        if pid > 1 and works(call, "ptrace", request, pid, 0, 0):
            pwn(f"attached to {pid}")
            works(call, "ptrace", 17, pid, 0, 0)
if works(call, "ptrace", 0, 0, 0, 0):
    pwn("asked to be traced")
