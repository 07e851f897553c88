"""Connect to a socket that lies in a folder."""

# bare: wins
import socket

made = socket.socket(socket.AF_UNIX)
made.connect(HOST["unix"])
pwn("connected")
