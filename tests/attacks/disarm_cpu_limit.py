"""Take the processor for longer than allowed: begin the count anew, in a new thread, or by sleep."""

# ends: ok error timeout_cpu timeout_wall
# burns: yes
import resource
import signal
import threading
import time

signal.signal(signal.SIGXCPU, signal.SIG_IGN)
works(resource.setrlimit, resource.RLIMIT_CPU, resource.getrlimit(resource.RLIMIT_CPU))


def burn():
    while True:
        pass


threading.Thread(target=burn).start()
while True:
    time.sleep(0.001)
