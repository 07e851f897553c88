"""More threads than are allowed."""

# ends: ok error memory timeout_wall timeout_cpu
import threading

threading.stack_size(64 * 1024)
done = threading.Event()
threads = []
try:
    while len(threads) < 2 * HOST["processes"] + 64:
        thread = threading.Thread(target=done.wait, daemon=True)
        thread.start()
        threads.append(thread)
except (RuntimeError, MemoryError):
    pass
done.set()
if len(threads) > HOST["processes"] + 1:
    pwn(f"{len(threads)} threads")
