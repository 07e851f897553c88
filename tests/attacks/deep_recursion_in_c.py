"""Recur in the interpreter's own C code until the stack of the machine ends."""

# ends: ok error memory killed timeout_cpu timeout_wall
import sys

sys.setrecursionlimit(10**9)
nested = []
for _ in range(300_000):
    nested = [nested]
repr(nested)
