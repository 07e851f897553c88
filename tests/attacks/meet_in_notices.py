"""Two calls at the same time: one opens a file, the other is told of it."""

# kind: together
import time

for _ in range(20):
    open(os.__file__).read(1)
    time.sleep(0.02)
# --- then
import ctypes
import fcntl
import signal
import time

heard = []
signal.signal(signal.SIGIO, lambda *_: heard.append(1))
folder = os.open(os.path.dirname(os.__file__), os.O_RDONLY)
if works(fcntl.fcntl, folder, 1026, 0x80000001 | 0x00000020):
    pwn("is told what happens in a folder")
watcher = call("inotify_init1", os.O_NONBLOCK)
name = ctypes.create_string_buffer(os.__file__.encode())
call("inotify_add_watch", watcher, ctypes.addressof(name), 0x20)
pwn("is told what happens to a file")
