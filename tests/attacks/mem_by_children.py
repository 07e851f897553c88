"""Take memory in children, each of which is within the limit."""

# bare: dangerous
import time

for _ in range(3):
    if os.fork() == 0:
        held = b"x" * (64 << 20)
        time.sleep(1)
        os._exit(0)
    pwn("memory of a child")
