"""Hold the interpreter's lock in one long computation."""

# ends: timeout_cpu timeout_wall
# burns: yes
x = 7 ** (7**9)
