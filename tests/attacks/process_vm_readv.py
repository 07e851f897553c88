"""Read and write the memory of another process by call."""

import ctypes

ours = ctypes.create_string_buffer(64)
local = (ctypes.c_ulong * 2)(ctypes.addressof(ours), 64)
theirs = (ctypes.c_ulong * 2)(ctypes.addressof(ours), 64)
for pid in (os.getppid(), HOST["pid"], HOST["victim"]):
    for name in ("process_vm_readv", "process_vm_writev"):
        try:
            call(name, pid, ctypes.addressof(local), 1, ctypes.addressof(theirs), 1, 0)
            pwn(f"{name} of {pid}")
        except OSError as error:
            if error.errno == 14 and pid not in (0, os.getpid()):
                pwn(f"{name} may reach {pid}")
