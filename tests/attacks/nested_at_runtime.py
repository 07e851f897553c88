"""The same depths, past the limit on the length of code."""

# ends: ok error killed memory timeout_cpu
import ast

for text in ("(" * 10**5, "-" * 3_000_000 + "1", "a" + ".a" * 10**5, "[" * 10**5 + "]" * 10**5):
    for parse in (compile, ast.parse):
        works(parse, text, "<deep>", "eval")
