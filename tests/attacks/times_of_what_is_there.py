"""Change the times of files by name."""

# bare: wins
import ctypes

name = ctypes.create_string_buffer(HOST["canary"].encode())
if works(os.utime, HOST["canary"], (1, 1)):
    pwn("utime")
if works(os.utime, HOST["folder"], (1, 1)):
    pwn("utime of a folder")
for way, arguments in {
    "utimensat": (-100, ctypes.addressof(name), 0, 0),
    "utimes": (ctypes.addressof(name), 0),
    "utime": (ctypes.addressof(name), 0),
    "futimesat": (-100, ctypes.addressof(name), 0),
}.items():
    if works(call, way, *arguments):
        pwn(way)
