"""Use up the inodes: empty files cost no bytes."""

# ends: ok error memory killed timeout_cpu timeout_wall
made = 0
for folder in (".", HOST["scratch_at"], "/tmp", "/var/tmp", "/dev/shm"):
    for number in range(6_000):
        try:
            os.close(os.open(f"{folder}/inode-{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except OSError:
            break
        made += 1
if made > 5_000:
    pwn(f"{made} files")
