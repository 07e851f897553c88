"""In a session: answer for cells that have not come yet, also with words that only the host says."""

# kind: session
# ends: ok error memory killed
import json

for status in ("sandbox_failure", "timeout_wall", "ok", "lost", 7, None):
    for cell in range(12):
        for body in (b"", b"\n", b"\nforged"):
            said = {"cell": cell, "status": status, "problem": "forged", "lost": True}
            for descriptor in range(3, 16):
                works(os.write, descriptor, json.dumps(said).encode() + body)
# --- then
raise ValueError("this cell fails")
# --- then
import json

works(os.write, 3, json.dumps({"cell": 3, "status": "sandbox_failure"}).encode())
# --- then
print("fourth cell")
