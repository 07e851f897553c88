"""Two sessions at the same time: one writes, the other looks for it."""

# kind: sessions
import sys

for folder in {".", HOST["scratch_at"], "/tmp", "/dev/shm", *sys.path}:
    works(open, f"{folder}/meeting", "w")
sys.meeting = 1
# --- then
import sys

for folder in {".", HOST["scratch_at"], "/tmp", "/dev/shm", *sys.path}:
    if os.path.lexists(f"{folder}/meeting"):
        pwn(f"met in {folder}")
if hasattr(sys, "meeting"):
    pwn("met in the interpreter")
