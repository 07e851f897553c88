"""The host's environment."""

# bare: wins
import ctypes

libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
if HOST["env"] in os.environ:
    pwn(os.environ[HOST["env"]])
if libc.getenv(HOST["env"].encode()):
    pwn("in the C library's environment")
area = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, "environ")
for place in range(1000):
    if not area[place]:
        break
    if b"hidden-" in area[place]:
        pwn("past the end of the environment")
