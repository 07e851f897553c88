"""Make a hundred processes."""

# bare: dangerous
import time

made = 0
for _ in range(100):
    if os.fork() == 0:
        time.sleep(2)
        os._exit(0)
    made += 1
    pwn(f"{made} processes")
