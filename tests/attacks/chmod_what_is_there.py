"""Change modes and owners of files by name: no opening is needed."""

# bare: wins
import ctypes

for path, mode in ((HOST["canary"], 0o600), (HOST["folder"], 0o700)):
    name = ctypes.create_string_buffer(path.encode())
    if works(os.chmod, path, mode):
        pwn(f"chmod {path}")
    if works(call, "fchmodat", -100, ctypes.addressof(name), mode):
        pwn(f"fchmodat {path}")
    if works(call, "fchmodat2", -100, ctypes.addressof(name), mode, 0):
        pwn(f"fchmodat2 {path}")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_PATH)
    except OSError:
        continue
    if works(os.chmod, f"/proc/self/fd/{descriptor}", mode):
        pwn(f"chmod of the descriptor of {path}")
if works(os.chown, HOST["canary"], os.getuid(), os.getgid()):
    pwn("chown")
if works(os.lchown, HOST["canary"], os.getuid(), os.getgid()):
    pwn("lchown")
