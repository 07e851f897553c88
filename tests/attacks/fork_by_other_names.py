"""All the other names under which a process is made."""

# bare: dangerous
import ctypes
import multiprocessing
import signal
import subprocess


def child(made):
    if made == 0:
        os._exit(0)
    return made


libc = ctypes.CDLL(None)
if child(libc.fork()) > 0:
    pwn("fork of the C library")
for name, arguments in [
    ("fork", ()),
    ("clone", (signal.SIGCHLD, 0, 0, 0, 0)),
    ("clone", (0x00000400 | signal.SIGCHLD, 0, 0, 0, 0)),
    ("clone", (0x80000000 | signal.SIGCHLD, 0, 0, 0, 0)),
    ("clone", (0x20000000 | signal.SIGCHLD, 0, 0, 0, 0)),
]:
    try:
        if child(call(name, *arguments)) > 0:
            pwn(name)
    except OSError:
        pass
if works(os.posix_spawn, "/bin/true", ["true"], {}):
    pwn("posix_spawn")
if works(subprocess.run, ["true"]):
    pwn("subprocess")
if works(subprocess.run, "true", shell=True, close_fds=False):
    pwn("shell")
process = multiprocessing.Process(target=int)
if works(process.start):
    pwn("multiprocessing")
