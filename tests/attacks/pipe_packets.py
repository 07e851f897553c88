"""Make the output a pipe of packets and write single bytes, so that each costs the host a call."""

# ends: ok error output_limit timeout_cpu timeout_wall
# burns: yes
import fcntl

if works(fcntl.fcntl, 1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | os.O_DIRECT):
    pwn("the output is in packets")
while True:
    os.write(1, b"x")
