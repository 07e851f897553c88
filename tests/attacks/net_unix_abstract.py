"""Connect to a socket that has a name only."""

# bare: wins
import socket

made = socket.socket(socket.AF_UNIX)
made.connect("\0" + HOST["abstract"])
pwn("connected")
