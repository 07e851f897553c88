"""Two calls at the same time: one locks a file that both may read, the other asks whether it is locked."""

# kind: together
import fcntl
import time

file = open(os.__file__)
works(fcntl.lockf, file, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 4242)
other = open(os.__file__)
works(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
works(fcntl.fcntl, file, 1024, 0)
works(fcntl.fcntl, file, 37, __import__("struct").pack("hhqqi", 0, 0, 77, 1, 0))
time.sleep(0.8)
# --- then
import fcntl
import struct
import time

file = open(os.__file__)
for _ in range(20):
    time.sleep(0.03)
    try:
        kind = struct.unpack("hhqqi", fcntl.fcntl(file, 5, struct.pack("hhqqi", 1, 0, 4242, 1, 0)))[
            0
        ]
        if kind != 2:
            pwn("sees a lock on a range")
    except (OSError, struct.error):
        pass
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_UN)
    except BlockingIOError:
        pwn("sees a lock on a file")
    except OSError:
        pass
