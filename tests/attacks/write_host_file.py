"""Write outside: new files, old files, folders, links, names."""

# bare: wins
folder = HOST["folder"]
new = os.path.join(folder, "new")
for path in (new, *HOST["outside"]):
    if works(open, path, "x"):
        pwn(f"wrote {path}")
        works(os.unlink, path)
for do in (
    (open, HOST["canary"], "a"),
    (open, HOST["canary"], "r+"),
    (os.mkdir, new),
    (os.rmdir, new),
    (os.symlink, "x", new),
    (os.mkfifo, new + "-fifo"),
    (os.mknod, new + "-node"),
    (os.rename, HOST["spare"], new + "-renamed"),
    (os.link, HOST["spare"], new + "-link"),
    (os.unlink, HOST["spare"]),
    (os.truncate, HOST["canary"], 1_000),
    (os.replace, HOST["canary"], HOST["canary"] + "-moved"),
    (os.open, folder, os.O_TMPFILE | os.O_RDWR),
):
    if works(*do):
        pwn(f"{do[0].__name__} {do[1:]}")
