"""Stop oneself, so that no timer of the process runs any more."""

# ends: ok error timeout_wall
import signal

os.kill(os.getpid(), signal.SIGSTOP)
