"""Recur until the stack of the machine ends."""

# ends: error memory killed timeout_cpu timeout_wall
# burns: yes
import sys

sys.setrecursionlimit(10**9)


def deeper(n):
    return deeper(n + 1) + 1


deeper(0)
