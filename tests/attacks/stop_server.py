"""Stop or kill the process that made this one."""

# ends: ok error
import signal

parent = os.getppid()
if parent > 1:
    for number in (signal.SIGSTOP, signal.SIGKILL):
        works(os.kill, parent, number)
        works(call, "tgkill", parent, parent, number)
        works(call, "tkill", parent, number)
