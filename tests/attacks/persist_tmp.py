"""Leave something for the next call, anywhere."""

import sys

for folder in {
    ".",
    HOST["scratch_at"],
    "/tmp",
    "/var/tmp",
    "/dev/shm",
    "/run",
    HOST["folder"],
    *sys.path,
}:
    works(open, f"{folder}/left-behind.py", "w")
    works(os.mkdir, f"{folder}/left-behind")
works(os.setxattr, ".", "user.left", b"x")
works(os.setxattr, os.__file__, "user.left", b"x")
os.umask(0o123)
# --- then
import sys

for folder in {
    ".",
    HOST["scratch_at"],
    "/tmp",
    "/var/tmp",
    "/dev/shm",
    "/run",
    HOST["folder"],
    *sys.path,
}:
    for name in ("left-behind.py", "left-behind"):
        if os.path.lexists(f"{folder}/{name}"):
            pwn(f"{folder}/{name} was left")
            works(os.unlink, f"{folder}/{name}")
            works(os.rmdir, f"{folder}/{name}")
if works(os.getxattr, ".", "user.left") or works(os.getxattr, os.__file__, "user.left"):
    pwn("an attribute was left")
if os.umask(0) == 0o123:
    pwn("the umask was left")
