"""Print for ever."""

# ends: output_limit
import sys

while True:
    sys.stdout.write("x" * (1 << 16))
