"""Connect to the host."""

# bare: wins
import socket

for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    made = socket.socket(family)
    pwn("a socket")
    works(made.connect, (address, HOST["tcp"]))
