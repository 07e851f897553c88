"""Burn the processor in many threads at once, outside of the interpreter's lock."""

# ends: timeout_cpu timeout_wall
# burns: yes
import hashlib
import threading

data = bytes(1 << 20)


def burn():
    while True:
        hashlib.sha256(data).digest()


for _ in range(8):
    threading.Thread(target=burn).start()
