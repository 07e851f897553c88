"""Leave with statuses that are none."""

# ends: ok error killed
import sys


class Evil(Exception):
    def __str__(self):
        raise SystemExit(self)

    __repr__ = __str__


sys.exit(Evil())
# --- then
import sys

sys.exit(10**100)
# --- then
raise KeyboardInterrupt
# --- then
raise GeneratorExit("of nothing")
# --- then
os._exit(-1)
# --- then
os.abort()
