"""Run a program by its descriptor, from memory, through the loader, or Python itself."""

import ctypes
import glob
import sys

word = HOST["word"][::-1]
script = f"echo PWN {word} another program"
environment = (ctypes.c_char_p * 1)(None)
words = (ctypes.c_char_p * 4)(b"sh", b"-c", script.encode(), None)
for path in ("/bin/sh", "/usr/bin/sh", "/bin/dash"):
    for flags in (os.O_RDONLY, os.O_PATH):
        try:
            descriptor = os.open(path, flags)
        except OSError:
            continue
        works(
            call,
            "execveat",
            descriptor,
            ctypes.addressof(ctypes.create_string_buffer(b"")),
            ctypes.addressof(words),
            ctypes.addressof(environment),
            0x1000,
        )
        works(os.execve, descriptor, ["sh", "-c", script], {})
for loader in glob.glob("/lib*/ld-linux*") + glob.glob("/lib/*/ld-linux*"):
    works(os.execv, loader, [loader, "/bin/sh", "-c", script])
pwned = f"print('PWN {word} another Python')"
works(os.execv, sys.executable, [sys.executable, "-c", pwned])
works(os.execv, HOST["python"], [HOST["python"], "-c", pwned])
