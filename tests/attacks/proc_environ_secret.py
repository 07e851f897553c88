"""Read the environment of whoever can be seen in /proc."""

# bare: wins
pids = {"self", "1", str(os.getppid()), str(HOST["pid"]), str(HOST["victim"])}
if works(os.listdir, "/proc"):
    pids |= {name for name in os.listdir("/proc") if name.isdigit()}
for pid in sorted(pids):
    for name in ("environ", "cmdline", "maps", "status"):
        try:
            text = open(f"/proc/{pid}/{name}", "rb").read()
        except OSError:
            continue
        if pid != "self" and int(pid) != os.getpid():
            pwn(f"read /proc/{pid}/{name}")
        if b"hidden-" in text:
            pwn(f"a secret in /proc/{pid}/{name}")
