"""Memory that was shared before the call began: what one call writes there, the next one reads."""

import gc
import mmap
import sys

for thing in gc.get_objects():
    if isinstance(thing, mmap.mmap):
        pwn("a mapping is left over")
for name in ("multiprocessing.shared_memory", "multiprocessing.heap"):
    if name in sys.modules:
        pwn(f"{name} is loaded")
