"""Make the output a pipe of packets and write single bytes, so that each costs the host a call."""

# ends: ok error output_limit timeout_cpu timeout_wall
# burns: yes
import fcntl

works(fcntl.fcntl, 1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | os.O_DIRECT)
while True:
    os.write(1, b"x")
