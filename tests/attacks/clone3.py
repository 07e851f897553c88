"""The call whose flags no filter can read."""

# bare: dangerous
import ctypes
import signal

for flags in (0, 0x10000000, 0x20000000, 0x2_0000_0000):
    arguments = (ctypes.c_uint64 * 11)(flags, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    try:
        made = call("clone3", ctypes.addressof(arguments), 88)
    except OSError:
        continue
    if made == 0:
        os._exit(0)
    pwn(f"clone3 with flags {flags:x}")
