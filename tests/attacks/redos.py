"""A regular expression that backtracks for ever."""

# ends: timeout_cpu timeout_wall
# burns: yes
import re

re.match(r"(a+)+$", "a" * 64 + "b")
