"""Memory as the stacks of threads."""

# ends: ok error memory killed timeout_wall
import threading

size = 64 << 20
threading.stack_size(size)
done = threading.Event()
threads = []
try:
    for _ in range(2 * (HOST["memory"] // size) + 2):
        thread = threading.Thread(target=done.wait, daemon=True)
        thread.start()
        threads.append(thread)
except (RuntimeError, MemoryError):
    pass
done.set()
if len(threads) * size > HOST["memory"] + size:
    pwn(f"{len(threads)} stacks")
