"""The same file under its other names: dots, links, descriptors, working folder."""

# bare: wins
at = HOST["canary"]
for path in (
    os.path.relpath(at),
    "/usr/../../" + at,
    os.path.dirname(os.__file__) + "/../../../../../../../../.." + at,
    "/proc/self/root" + at,
    "/proc/thread-self/root" + at,
    "/proc/self/cwd/" + os.path.relpath(at),
    "/dev/fd/../root" + at,
    "/old" + at,
    "/.old" + at,
    "/oldroot" + at,
    "/put_old" + at,
):
    if works(open, path):
        pwn(f"opened {path}")
if works(os.chdir, os.path.dirname(at)) and works(open, os.path.basename(at)):
    pwn("from its own folder")
works(os.chroot, ".")
for _ in range(64):
    works(os.chdir, "..")
if works(open, "." + at):
    pwn("from above")
