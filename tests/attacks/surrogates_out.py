"""Text that cannot be encoded."""

# ends: ok
import sys

print("\ud800 \udcff \x00 \x1b[31m \u202e")
sys.stdout.write("\udfff")
print("\ud800", file=sys.stderr)
