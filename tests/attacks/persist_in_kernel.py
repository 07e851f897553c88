"""Leave something in the kernel for the next call: keys, shared memory, queues, semaphores."""

import ctypes

key = 0x5EC7E7
for name, arguments in {
    "shmget": (key, 4096, 0o1666),
    "semget": (key, 1, 0o1666),
    "msgget": (key, 0o1666),
}.items():
    works(call, name, *arguments)
words = [ctypes.create_string_buffer(word) for word in (b"user", b"left", b"x", b"left-queue")]
kind, label, text, queue = (ctypes.addressof(word) for word in words)
for ring in (-3, -4, -5, -2):
    works(call, "add_key", kind, label, text, 1, ring)
works(call, "mq_open", queue, os.O_CREAT | os.O_RDWR, 0o666, 0)
# --- then
import ctypes

key = 0x5EC7E7
for name, arguments in {"shmget": (key, 0, 0), "semget": (key, 0, 0), "msgget": (key, 0)}.items():
    try:
        made = call(name, *arguments)
    except OSError:
        continue
    pwn(f"{name} found what was left")
    remove = {
        "shmget": ("shmctl", made, 0, 0),
        "semget": ("semctl", made, 0, 0),
        "msgget": ("msgctl", made, 0, 0),
    }
    works(call, *remove[name])
words = [ctypes.create_string_buffer(word) for word in (b"user", b"left", b"left-queue")]
kind, label, queue = (ctypes.addressof(word) for word in words)
if works(call, "request_key", kind, label, 0, 0):
    pwn("a key was left")
for ring in (-3, -4, -5, -2):
    if works(call, "keyctl", 10, ring, kind, label, 0):
        pwn("a key was left in a ring")
if works(call, "mq_open", queue, os.O_RDONLY, 0, 0):
    pwn("a queue was left")
    works(call, "mq_unlink", queue)
