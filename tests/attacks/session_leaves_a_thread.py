"""In a session: a thread that goes on between the cells and prints into the next one."""

# kind: session
# ends: ok error timeout_cpu timeout_wall
import threading
import time


def murmur():
    while True:
        print("murmur", flush=True)
        time.sleep(0.01)


threading.Thread(target=murmur, daemon=True).start()
# --- then
import time

time.sleep(0.2)
# --- then
print("third cell")
