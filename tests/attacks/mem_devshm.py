"""Memory as files in the folders that lie in memory."""

# ends: ok error memory killed
block = b"x" * (1 << 20)
written = 0
for folder in ("/dev/shm", "/run/shm", "/run", "/run/lock", "/dev", "/sys/fs/cgroup"):
    path = os.path.join(folder, "attack-fill")
    try:
        with open(path, "wb") as file:
            for _ in range(8):
                written += file.write(block)
        pwn(f"wrote {path}")
    except OSError:
        pass
    works(os.unlink, path)
