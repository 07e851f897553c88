"""Memory that the kernel holds for pipes and sockets."""

import fcntl
import socket

held = 0
kept = []
try:
    while held < 256 << 20:
        reading, writing = os.pipe()
        kept += [reading, writing]
        for size in (1 << 30, 64 << 20, 1 << 20):
            try:
                fcntl.fcntl(writing, 1031, size)
            except OSError:
                continue
            if size > 1 << 20:
                pwn(f"a pipe of {size >> 20} MiB")
            break
        os.set_blocking(writing, False)
        try:
            while True:
                held += os.write(writing, bytes(1 << 16))
        except OSError:
            pass
except OSError:
    pass
for descriptor in kept:
    os.close(descriptor)
if held > 64 << 20:
    pwn(f"{held >> 20} MiB in pipes")
held = 0
sockets = []
try:
    while held < 256 << 20:
        pair = socket.socketpair()
        sockets += pair
        for option in (32, socket.SO_SNDBUF):
            try:
                pair[0].setsockopt(socket.SOL_SOCKET, option, 64 << 20)
            except OSError:
                continue
            if pair[0].getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= 64 << 20:
                pwn("a socket of 64 MiB")
        pair[0].setblocking(False)
        try:
            while True:
                held += pair[0].send(bytes(1 << 16))
        except OSError:
            pass
except OSError:
    pass
if held > 64 << 20:
    pwn(f"{held >> 20} MiB in sockets")
