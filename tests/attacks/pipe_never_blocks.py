"""Make the output never block, fill it, and end with it full."""

# ends: ok error output_limit
os.set_blocking(1, False)
try:
    while True:
        os.write(1, b"x" * 4096)
except BlockingIOError:
    pass
