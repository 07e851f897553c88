"""Loop where the interpreter says goodbye: exit handlers, finalisers."""

# ends: ok error timeout_cpu timeout_wall
# burns: yes
import atexit
import sys


class Late:
    def __del__(self):
        while True:
            pass


@atexit.register
def never():
    while True:
        pass


sys.kept = Late()
