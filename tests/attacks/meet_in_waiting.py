"""Two calls at the same time: one waits on a page of a file that both may read, the other wakes it."""

# kind: together
import ctypes

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
file = open(os.__file__, "rb")
at = libc.mmap(None, ctypes.c_size_t(4096), 1, 1, file.fileno(), ctypes.c_long(0))
value = int.from_bytes(ctypes.string_at(at, 4), "little")
until = (ctypes.c_long * 2)(0, 700_000_000)
call("futex", at, 0, value, ctypes.addressof(until), 0, 0)
pwn("was woken")
# --- then
import ctypes
import time

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
file = open(os.__file__, "rb")
at = libc.mmap(None, ctypes.c_size_t(4096), 1, 1, file.fileno(), ctypes.c_long(0))
for _ in range(20):
    time.sleep(0.03)
    if call("futex", at, 1, 1, 0, 0, 0) > 0:
        pwn("woke somebody")
