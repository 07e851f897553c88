"""In a session: end while nobody looks, so that it seems to be the sandbox's fault."""

# kind: session
# ends: ok error killed timeout_wall
import signal

signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.setitimer(signal.ITIMER_REAL, 0.02)
# --- then
import time

time.sleep(0.1)
# --- then
import threading
import time


def later():
    time.sleep(0.005)
    os._exit(0)


threading.Thread(target=later).start()
# --- then
import time

time.sleep(0.05)
# --- then
import threading

for _ in range(8):
    threading.Thread(target=os._exit, args=(0,)).start()
# --- then
print("sixth cell")
