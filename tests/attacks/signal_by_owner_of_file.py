"""Make another process the owner of a file, so that the kernel signals it."""

# bare: wins
import fcntl
import signal
import socket
import struct

left, right = socket.socketpair()
reading, writing = os.pipe()
for pid in (HOST["victim"], -HOST["victim"]):
    for own, other in ((left.fileno(), right.fileno()), (reading, writing), (1, None)):
        works(fcntl.fcntl, own, fcntl.F_SETOWN, pid)
        works(fcntl.fcntl, own, 15, struct.pack("ii", 1, pid))
        works(fcntl.fcntl, own, 10, signal.SIGUSR1)
        works(fcntl.fcntl, own, fcntl.F_SETFL, fcntl.fcntl(own, fcntl.F_GETFL) | os.O_ASYNC)
        if other is not None:
            os.write(other, b"x")
            os.read(own, 1)
