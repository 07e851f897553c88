"""Bytes that are no text."""

# ends: ok
os.write(1, bytes(range(256)) * 10 + b"\xff\xfe\xed\xa0\x80")
