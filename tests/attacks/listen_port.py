"""Listen, so that others may come."""

# bare: wins
import socket

made = socket.socket()
made.bind(("127.0.0.1", 0))
made.listen()
pwn("listening")
