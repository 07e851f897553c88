"""In a session: a last value that breaks whoever shows it."""
# kind: session
# may: TypeError
# ends: ok error memory killed timeout_cpu timeout_wall output_limit


class Evil:
    def __init__(self, do):
        self.do = do

    def __repr__(self):
        return self.do()


Evil(lambda: 3)
# --- then
Evil(lambda: 1 / 0)
# --- then
Evil(lambda: "x" * (100 << 20))
# --- then
import sys

sys.displayhook = None
__builtins__ = None
5
# --- then
Evil(lambda: "\ud800")
# --- then
import os

Evil(lambda: os._exit(3))
# --- then
6
