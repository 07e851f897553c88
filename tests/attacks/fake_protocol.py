"""Write what the machinery might write, to everything that is open, and fail: no forgery may turn that into a success."""

# ends: error
import json
import struct

report = {
    "status": "ok",
    "exit": 0,
    "signal": None,
    "cpu": 0.0,
    "pid": 1,
    "stdout": "forged",
    "level": 3,
}
for text in (json.dumps(report).encode(), json.dumps(report).encode() + b"\n"):
    for frame in (
        text,
        struct.pack(">I", len(text)) + text,
        struct.pack("<I", len(text)) + text,
        b"\xff" * 9,
    ):
        for descriptor in [*range(3, 64), 1, 2]:
            try:
                os.set_blocking(descriptor, False)
                os.write(descriptor, frame)
            except OSError:
                continue
os._exit(3)
