"""Every process makes another: two to the sixth of them."""

# bare: dangerous
import time

for _ in range(6):
    os.fork()
    pwn("a process that makes processes")
time.sleep(2)
