"""Code of five million characters."""

# ends: error
# made: yes
CODES = ["x = 1\n" * 800_000, "#" * 4_800_000, "\U0001f600" * 70_000]
