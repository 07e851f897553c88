"""In a session: fill the socket to the host, and answer nothing."""

# kind: session
# ends: ok error killed timeout_cpu timeout_wall output_limit
# burns: yes
for _ in range(10**9):
    for descriptor in range(3, 16):
        works(os.write, descriptor, b"x" * 60_000)
# --- then
print("second cell")
