"""Memory that is a file and counts as nobody's."""

# bare: wins
# ends: ok error memory killed
import ctypes

descriptor = call("memfd_create", ctypes.addressof(ctypes.create_string_buffer(b"x")), 0)
pwn("a file in memory")
os.close(descriptor)
