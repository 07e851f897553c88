"""Leave a process behind that holds the output open."""

# bare: dangerous
import time

if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(30)
    os._exit(0)
pwn("a grandchild")
