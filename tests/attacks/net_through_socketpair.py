"""Send from one half of a pair to somebody else: a pair of datagram sockets may address anyone."""

# bare: wins
import socket

for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_STREAM, socket.SOCK_RAW):
    try:
        left, right = socket.socketpair(socket.AF_UNIX, kind)
    except OSError:
        continue
    for name in (HOST["dgram"], "\0" + HOST["abstract_dgram"]):
        if works(left.sendto, b"x", name):
            pwn(f"sendto {name!r}")
        if works(left.sendmsg, [b"x"], [], 0, name):
            pwn(f"sendmsg {name!r}")
        if works(left.connect, name):
            pwn(f"connect {name!r}")
    if works(left.bind, "\0bound-by-the-attack"):
        pwn("bound a name")
