"""All the other signals a process can die of."""

# ends: ok error killed timeout_cpu timeout_wall
import ctypes
import mmap

if HOST["machine"] == "x86_64":
    area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    area.write(bytes.fromhex("0f0b"))
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(area)))()
# --- then
import signal

signal.raise_signal(signal.SIGKILL)
# --- then
import signal

signal.setitimer(signal.ITIMER_REAL, 0.01)
signal.pause()
# --- then
import ctypes
import mmap

if HOST["machine"] == "x86_64":
    area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    area.write(bytes.fromhex("31c9f7f1"))
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(area)))()
