"""Send the host a datagram."""

# bare: wins
import socket

made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
made.sendto(b"x", ("127.0.0.1", HOST["udp"]))
pwn("sent")
