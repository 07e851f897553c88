"""Read files of the host: the canary, and what is worth reading anywhere."""

# bare: wins
paths = [
    HOST["canary"],
    "/etc/passwd",
    "/etc/shadow",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/root/.bashrc",
    "/root/.ssh",
    "/home",
    "/var/log",
    "/var/run/secrets",
    "/sys/kernel",
    "/proc/self/environ",
    "/proc/1/environ",
    "/proc/mounts",
    "/proc/meminfo",
    "/proc/kallsyms",
    "/tmp",
    HOST["folder"],
    HOST["repo"],
    os.path.join(HOST["repo"], "pyproject.toml"),
    os.path.join(HOST["repo"], ".git"),
    os.path.dirname(os.path.dirname(HOST["python"])) + "/pyvenv.cfg",
]
for path in paths:
    if path.startswith(HOST["scratch_at"]):
        continue
    if works(os.listdir, path) and os.listdir(path):
        pwn(f"listed {path}")
    try:
        with open(path, "rb") as file:
            text = file.read(4096)
    except OSError:
        continue
    if path == HOST["canary"]:
        print(text[:200])
    pwn(f"read {path}")
