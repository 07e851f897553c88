"""Two calls at the same time: one writes, the other looks for it."""

# kind: together
import sys
import time

for folder in {".", HOST["scratch_at"], "/tmp", "/var/tmp", "/dev/shm", "/run", *sys.path}:
    works(open, f"{folder}/meeting", "w")
time.sleep(0.8)
# --- then
import sys
import time

for _ in range(40):
    for folder in {".", HOST["scratch_at"], "/tmp", "/var/tmp", "/dev/shm", "/run", *sys.path}:
        if os.path.lexists(f"{folder}/meeting"):
            pwn(f"met in {folder}")
        if (
            folder in ("/tmp", HOST["scratch_at"])
            and works(os.listdir, folder)
            and os.listdir(folder)
        ):
            pwn(f"sees {os.listdir(folder)[:5]} in {folder}")
    time.sleep(0.02)
