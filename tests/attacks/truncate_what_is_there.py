"""Empty a file without writing to it."""

# bare: dangerous
for path in (HOST["canary"], HOST["spare"]):
    if works(os.truncate, path, 3):
        pwn(f"truncate {path}")
    if works(os.open, path, os.O_RDONLY | os.O_TRUNC):
        pwn(f"opened and emptied {path}")
