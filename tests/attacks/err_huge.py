"""Complain for ever."""

# ends: output_limit
import sys

while True:
    sys.stderr.write("x" * (1 << 16))
