"""No attack: the instruments of the attacks work in here, so that their silence means something."""

# ends: ok
# instrument: yes
import ctypes
import mmap
import threading

assert call("getpid") == os.getpid()
area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE)
assert ctypes.c_char.from_buffer(area).value == b"\0"
ran = []
thread = threading.Thread(target=ran.append, args=(1,))
thread.start()
thread.join()
assert ran
assert open(os.__file__).read(1)
pwn("the instruments work")
