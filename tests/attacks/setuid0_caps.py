"""Become root, or get some of what root may do."""

import ctypes

if 0 in os.getresuid():
    pwn("is root")
for change in (
    (os.setuid, 0),
    (os.setresuid, 0, 0, 0),
    (os.setreuid, 0, 0),
    (os.setgid, 0),
    (os.setresgid, 0, 0, 0),
    (os.setgroups, [0, 1]),
    (os.setegid, 0),
    (os.seteuid, 0),
):
    before = os.getresuid(), os.getresgid(), os.getgroups()
    if works(*change) and (os.getresuid(), os.getresgid(), os.getgroups()) != before:
        pwn(f"{change[0].__name__}{change[1:]}")
header = (ctypes.c_uint * 2)(0x20080522, 0)
data = (ctypes.c_uint * 6)()
if works(call, "capget", ctypes.addressof(header), ctypes.addressof(data)) and any(data):
    pwn(f"has capabilities {list(data)}")
everything = (ctypes.c_uint * 6)(*[0xFFFFFFFF] * 6)
if works(call, "capset", ctypes.addressof(header), ctypes.addressof(everything)):
    pwn("took capabilities")
for number in range(41):
    if works(call, "prctl", 47, 2, number, 0, 0):
        pwn(f"ambient capability {number}")
if works(call, "prctl", 28, 0, 0, 0, 0) or works(call, "prctl", 24, 0, 0, 0, 0):
    pwn("the bits and the bounds of capabilities")
