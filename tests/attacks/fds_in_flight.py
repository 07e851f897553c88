"""Open files beyond the limit by keeping them in a socket on its way."""

import array
import socket

left, right = socket.socketpair()
left.setblocking(False)
sent = 0
try:
    while sent < 20_000:
        descriptors = array.array("i", [os.open(os.__file__, os.O_RDONLY) for _ in range(16)])
        left.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        for descriptor in descriptors:
            os.close(descriptor)
        sent += len(descriptors)
except OSError:
    pass
if sent > 16 * HOST["files"]:
    pwn(f"{sent} files on their way")
