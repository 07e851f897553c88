"""Fill the disk: sixteen times more than the scratch folder may hold, in many files."""

# ends: ok error memory killed output_limit
block = b"x" * (256 << 10)
written = 0
for folder in (
    ".",
    HOST["scratch_at"],
    "/tmp",
    "/var/tmp",
    "/dev/shm",
    "/run",
    "/",
    HOST["folder"],
):
    for number in range(64):
        if written > 4 * HOST["scratch"]:
            break
        try:
            with open(f"{folder}/fill-{number}", "wb", buffering=0) as file:
                for _ in range(16):
                    written += file.write(block)
        except OSError:
            continue
for folder in (".", HOST["scratch_at"]):
    try:
        descriptor = os.open(f"{folder}/sparse", os.O_CREAT | os.O_RDWR)
        os.posix_fallocate(descriptor, 0, 4 * HOST["scratch"])
        written += 4 * HOST["scratch"]
    except OSError:
        pass
if written > 2 * HOST["scratch"]:
    pwn(f"{written >> 20} MiB")
