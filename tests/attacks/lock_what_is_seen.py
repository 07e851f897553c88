"""Lock a file that the host needs, so that the host waits."""

import fcntl

file, other = open(os.__file__), open(os.__file__)
if works(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB):
    # A lock that was only said to be given holds up nobody.
    try:
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pwn("locked it")
    except OSError:
        pass
if works(fcntl.fcntl, file, 1024, fcntl.F_RDLCK) and fcntl.fcntl(file, 1025) != fcntl.F_UNLCK:
    pwn("has a lease on it")
# --- then
import fcntl
import struct

wanted = struct.pack("hhqqi", fcntl.F_RDLCK, 0, 4711, 1, 0)
for request in (fcntl.F_SETLK, 37):
    file = open(os.__file__)
    other = open(os.__file__)
    if not works(fcntl.fcntl, file, request, wanted):
        continue
    # 36 asks for locks of files as opened, so that even one's own counts.
    asked = struct.pack("hhqqi", fcntl.F_WRLCK, 0, 4711, 1, 0)
    try:
        found = struct.unpack("hhqqi", fcntl.fcntl(other, 36, asked))
    except OSError:
        continue
    if found[0] == fcntl.F_RDLCK:
        pwn("locked a range of it")
