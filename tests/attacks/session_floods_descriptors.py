"""In a session: hand the host open files until it has no more numbers for them."""

# kind: session
# ends: ok error killed timeout_cpu timeout_wall output_limit
import array
import socket
import stat

for descriptor in range(3, 64):
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            continue
    except OSError:
        continue
    other = socket.socket(fileno=os.dup(descriptor))
    other.setblocking(False)
    files = array.array("i", [0] * 200)
    for _ in range(50):
        works(other.sendmsg, [b"{}"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
# --- then
print("second cell")
