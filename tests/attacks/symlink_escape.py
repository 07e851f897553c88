"""Leave by a link: symbolic, hard, or through the links of /proc."""

# bare: wins

folders = [".", HOST["scratch_at"], "/tmp", "/var/tmp", "/dev/shm", "/run"]
for folder in folders:
    for number, target in enumerate((HOST["canary"], "/etc/passwd", "/proc/1/root", "/..")):
        path = os.path.join(folder, f"attack-link-{os.getpid()}-{number}")
        if works(os.symlink, target, path):
            if works(open, path):
                pwn(f"{path} leads to {target}")
            if target == "/.." and works(open, path + HOST["canary"]):
                pwn("a link leads out")
            works(os.unlink, path)
        if works(os.link, target, path):
            pwn(f"{path} is {target}")
            works(os.unlink, path)
