"""Every other call that sends a signal, with the signal that does nothing."""

# bare: wins
import ctypes

info = ctypes.create_string_buffer(128)
ctypes.c_int.from_buffer(info, 8).value = -1
at = ctypes.addressof(info)
for pid in (HOST["victim"], HOST["pid"], os.getppid()):
    if pid in (0, os.getpid()):
        continue
    for name, arguments in {
        "tkill": (pid, 0),
        "tgkill": (pid, pid, 0),
        "rt_sigqueueinfo": (pid, 0, at),
        "rt_tgsigqueueinfo": (pid, pid, 0, at),
    }.items():
        if works(call, name, *arguments):
            pwn(f"{name} to {pid}")
