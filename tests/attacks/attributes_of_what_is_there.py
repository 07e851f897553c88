"""Hang a message onto a file of the host."""

# bare: wins
import array
import ctypes
import fcntl

canary = ctypes.create_string_buffer(HOST["canary"].encode())
key, text = ctypes.create_string_buffer(b"user.attack"), ctypes.create_string_buffer(b"x")
if works(os.setxattr, HOST["canary"], "user.attack", b"x"):
    pwn("setxattr")
arguments = (ctypes.c_uint64 * 2)(ctypes.addressof(text), 1)
if works(
    call,
    "setxattrat",
    -100,
    ctypes.addressof(canary),
    0,
    ctypes.addressof(key),
    ctypes.addressof(arguments),
    16,
):
    pwn("setxattrat")
attributes = (ctypes.c_uint64 * 3)()
if works(call, "file_setattr", -100, ctypes.addressof(canary), ctypes.addressof(attributes), 24, 0):
    pwn("file_setattr")
for path in (HOST["canary"], os.__file__):
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        continue
    if works(fcntl.ioctl, descriptor, 0x80086601, array.array("l", [0])):
        pwn("read the attributes of an inode")
    if works(os.setxattr, descriptor, "user.attack", b"x"):
        pwn("setxattr of a descriptor")
