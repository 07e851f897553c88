"""Parentheses, one in the other."""

# ends: error killed memory
# made: yes
CODES = ["(" * 30_000 + ")" * 30_000, "[" * 60_000, "f'{" * 20_000, "x = " + "{1:" * 15_000]
