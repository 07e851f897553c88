"""Write to the files that the code may read, and to the packages beside them."""

import json
import sys

for module in (os, json, sys.modules[works.__module__]):
    path = getattr(module, "__file__", None)
    if not path:
        continue
    for mode in ("r+b", "ab"):
        if works(open, path, mode):
            pwn(f"opened {path} for writing")
    beside = os.path.join(os.path.dirname(path), "attack.py")
    if works(open, beside, "x"):
        pwn(f"wrote {beside}")
        works(os.unlink, beside)
    if works(os.rename, path, path + "-moved"):
        pwn(f"moved {path}")
        works(os.rename, path + "-moved", path)
for folder in {*sys.path, HOST["site"], "/usr/local/lib", os.path.dirname(sys.executable or "/")}:
    for name in ("sitecustomize.py", "usercustomize.py", "attack.pth"):
        if (
            folder
            and not folder.startswith(HOST["scratch_at"])
            and works(open, f"{folder}/{name}", "x")
        ):
            pwn(f"wrote {folder}/{name}")
            works(os.unlink, f"{folder}/{name}")
