"""A new user namespace, in which one is root, and a file system of one's own."""

import ctypes
import threading

flags = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
    "time": 0x00000080,
}


def leave():
    for name, flag in flags.items():
        if works(call, "unshare", flag):
            pwn(f"a new {name} namespace")
    if works(call, "unshare", 0x10000000 | 0x00020000):
        pwn("new user and mount namespaces")


leave()
thread = threading.Thread(target=leave)
thread.start()
thread.join()
for pid in ("self", "1", HOST["pid"]):
    for name in flags:
        path = f"/proc/{pid}/ns/{name}"
        if works(open, path) and works(call, "setns", os.open(path, os.O_RDONLY), 0):
            pwn(f"entered {path}")
words = [ctypes.create_string_buffer(word) for word in (b"none", b".", b"tmpfs", b"proc", b"/")]
none, here, tmpfs, proc, root = (ctypes.addressof(word) for word in words)
if works(call, "mount", none, here, tmpfs, 0, 0) or works(call, "mount", none, here, proc, 0, 0):
    pwn("mounted")
if works(call, "mount", none, root, 0, 32 | 4096, 0):
    pwn("mounted the root anew, for writing")
if works(call, "umount2", root, 2) or works(call, "pivot_root", here, here):
    pwn("changed the root")
if works(call, "fsopen", tmpfs, 0) or works(call, "open_tree", -100, root, 1):
    pwn("the new calls for mounting")
