"""May anybody else be signalled? Asked with the signal that does nothing."""

# bare: wins
import signal

for pid in (os.getppid(), HOST["pid"], HOST["victim"], 1, 2, -1, -HOST["pid"], -os.getppid()):
    own = pid in (0, os.getpid())
    if not own and works(os.kill, pid, 0):
        pwn(f"kill({pid}, 0)")
for pid in (os.getppid(), HOST["pid"], HOST["victim"]):
    if pid and pid != os.getpid() and works(os.killpg, pid, 0):
        pwn(f"killpg({pid}, 0)")
    if pid and works(
        signal.pidfd_send_signal, os.pidfd_open(pid) if works(os.pidfd_open, pid) else -1, 0
    ):
        pwn(f"pidfd of {pid}")
