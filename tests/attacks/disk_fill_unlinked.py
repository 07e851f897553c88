"""Fill the disk with files that have no name any more."""

# ends: ok error memory killed
block = b"x" * (256 << 10)
written = 0
for folder in (".", HOST["scratch_at"], "/tmp"):
    for number in range(48):
        if written > 4 * HOST["scratch"]:
            break
        try:
            file = open(f"{folder}/gone-{number}", "wb", buffering=0)
            os.unlink(f"{folder}/gone-{number}")
            globals()[f"kept_{folder}_{number}"] = file
            for _ in range(16):
                written += file.write(block)
        except OSError:
            continue
if written > 2 * HOST["scratch"]:
    pwn(f"{written >> 20} MiB")
