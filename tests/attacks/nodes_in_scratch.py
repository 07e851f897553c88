"""Make devices, and open what they stand for."""

import stat

for folder in (".", HOST["scratch_at"], "/tmp", "/dev/shm"):
    for kind, device in (
        (stat.S_IFCHR, os.makedev(1, 1)),
        (stat.S_IFCHR, os.makedev(1, 3)),
        (stat.S_IFCHR, os.makedev(5, 0)),
        (stat.S_IFBLK, os.makedev(254, 0)),
        (stat.S_IFBLK, os.makedev(7, 0)),
        (stat.S_IFSOCK, 0),
    ):
        path = f"{folder}/node-{kind}-{device}"
        if works(os.mknod, path, kind | 0o666, device):
            pwn(f"made {path}")
            if works(open, path, "rb"):
                pwn(f"opened {path}")
            works(os.unlink, path)
