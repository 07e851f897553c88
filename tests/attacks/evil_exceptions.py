"""Exceptions that break whoever looks at them."""
# ends: ok error memory killed timeout_cpu timeout_wall
# burns: yes


class Loops(Exception):
    def __str__(self):
        while True:
            pass


raise Loops
# --- then


class Raises(Exception):
    def __str__(self):
        raise BaseException(self)

    __repr__ = __str__

    @property
    def __notes__(self):
        raise BaseException("notes")


raise Raises
# --- then
raise ValueError("x" * (50 << 20))
# --- then
error = ValueError()
for _ in range(200_000):
    error = ExceptionGroup("g", [error])
raise error
# --- then
error = ValueError()
for _ in range(100_000):
    following = ValueError()
    following.__context__ = error
    error = following
raise error
# --- then
first, second = ValueError(), ValueError()
first.__cause__, second.__cause__ = second, first
raise first
# --- then
exec(compile("\n" * 10 + "x = '" + "y" * 5_000_000 + "'; 1/0", "<giant line>", "exec"))
