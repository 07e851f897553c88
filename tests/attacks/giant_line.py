"""One line that has no end."""

# ends: output_limit
piece = b"x" * (1 << 20)
for _ in range(64):
    os.write(1, piece)
