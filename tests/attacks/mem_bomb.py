"""Take memory until it ends."""

# ends: ok error memory killed
held = []
try:
    while len(held) * 16 < 1024:
        held.append(b"x" * (16 << 20))
except MemoryError:
    pass
if (len(held) * 16 << 20) > HOST["memory"] + (64 << 20):
    pwn(f"{16 * len(held)} MiB")
