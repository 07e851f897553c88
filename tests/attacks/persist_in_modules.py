"""Change what every call finds loaded, and look whether the next one finds it changed."""

import builtins
import json
import math
import sys
import threading

math.pi = 3
builtins.left = json.left = sys.left = 1
builtins.print = None
json.dumps = None
os.environ["LEFT"] = "1"
sys.setrecursionlimit(777)
sys.path.insert(0, "/left")
works(os.nice, 1)
threading.stack_size(1 << 20)
__import__("left_behind") if False else sys.modules.__setitem__("left_behind", math)
# --- then
import builtins
import json
import math
import sys

if math.pi == 3 or json.dumps is None or "left_behind" in sys.modules:
    pwn("a module was left changed")
if hasattr(builtins, "left") or hasattr(sys, "left") or "/left" in sys.path:
    pwn("the interpreter was left changed")
if os.environ.get("LEFT") or sys.getrecursionlimit() == 777:
    pwn("the process was left changed")
