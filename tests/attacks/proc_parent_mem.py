"""Read the memory of the host, or of the process that made this one."""

for pid in (HOST["pid"], os.getppid(), HOST["victim"], 1):
    for path in (f"/proc/{pid}/mem", f"/proc/{pid}/task/{pid}/mem", f"/proc/{pid}/root"):
        if pid and pid != os.getpid() and works(os.open, path, os.O_RDONLY):
            pwn(f"opened {path}")
