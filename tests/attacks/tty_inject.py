"""Type into the terminal of whoever started all this."""

import fcntl
import termios

for path in ("/dev/tty", "/dev/console", "/dev/pts/0", "/dev/tty1"):
    if works(os.open, path, os.O_RDWR):
        pwn(f"opened {path}")
for descriptor in (0, 1, 2):
    for request, argument in ((termios.TIOCSTI, b"x"), (0x541C, b"\x03"), (0x540E, 0), (0x5423, 0)):
        if works(fcntl.ioctl, descriptor, request, argument):
            pwn(f"ioctl {request:x} of {descriptor}")
