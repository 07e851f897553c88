"""In a session: stop, so that the next cell finds nobody."""

# kind: session
# ends: ok error killed timeout_cpu timeout_wall
# burns: yes
import signal

works(signal.raise_signal, signal.SIGSTOP)
# --- then
print("second cell")
# --- then
import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    pass
# --- then
print("fourth cell")
