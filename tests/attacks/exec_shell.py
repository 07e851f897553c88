"""Become a shell."""

# bare: wins
word = HOST["word"][::-1]
for path in ("/bin/sh", "/usr/bin/sh", "/bin/busybox", "/usr/bin/env"):
    command = [path, "sh"] if path.endswith(("env", "busybox")) else [path]
    works(os.execv, path, [*command, "-c", f"echo PWN {word} a shell"])
