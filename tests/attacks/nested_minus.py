"""Signs, one after the other: a tree as deep as the text is long."""

# ends: ok error killed memory
# made: yes
CODES = ["-" * 60_000 + "1", "~" * 60_000 + "1", "not " * 15_000 + "1", "lambda:" * 9_000 + "1"]
