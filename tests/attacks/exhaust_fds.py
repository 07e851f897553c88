"""Open more files than are allowed."""

opened = 0
try:
    while opened < 4096:
        os.open(os.__file__, os.O_RDONLY)
        opened += 1
except OSError:
    pass
if opened > HOST["files"]:
    pwn(f"{opened} descriptors")
