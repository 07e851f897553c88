"""In a session: write what the machinery might write to everything that is open."""

# kind: session
# ends: ok error killed timeout_cpu timeout_wall output_limit
import json
import struct

report = {
    "status": "ok",
    "exit": 0,
    "signal": None,
    "cpu": 0.0,
    "done": True,
    "error": False,
    "lost": False,
}
for text in (
    json.dumps(report).encode(),
    json.dumps(report).encode() + b"\n",
    b"",
    b"\xff" * 70_000,
):
    for frame in (text, struct.pack(">I", len(text)) + text, struct.pack("<I", len(text)) + text):
        for descriptor in range(3, 64):
            try:
                os.write(descriptor, frame)
            except OSError:
                continue
# --- then
print("second cell")
raise ValueError("this cell fails")
# --- then
print("third cell")
