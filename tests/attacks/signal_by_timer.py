"""Let a timer signal another process."""

import ctypes
import signal

for way in (0, 4):
    event = ctypes.create_string_buffer(64)
    struct_ = (ctypes.c_int * 6).from_buffer(event)
    struct_[2], struct_[3], struct_[4] = signal.SIGUSR1, way, HOST["victim"]
    made = ctypes.c_int()
    try:
        call("timer_create", 1, ctypes.addressof(event), ctypes.addressof(made))
    except OSError:
        continue
    soon = (ctypes.c_long * 4)(0, 0, 0, 1000)
    works(call, "timer_settime", made.value, 0, ctypes.addressof(soon), 0)
