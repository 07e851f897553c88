"""Leave a daemon behind that writes after the call is over."""

# bare: wins
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for descriptor in range(3, 64):
            works(os.close, descriptor)
        time.sleep(0.3)
        with open(os.path.join(HOST["folder"], "daemon"), "w") as file:
            file.write("still here")
        os._exit(0)
    os._exit(0)
pwn("a daemon")
