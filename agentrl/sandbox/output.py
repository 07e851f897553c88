"""What a child wrote: the beginning and the end are kept, the middle is counted.

In    bytes as they come off a pipe, any amount
Out   decodable text of bounded length, with a notice where something was left out
Not   a judge of what is in it
"""

from __future__ import annotations


class Output:
    """Bounded memory of an unbounded stream."""

    def __init__(self, kept: int) -> None:
        """Keep so many bytes: three quarters from the beginning, one from the end."""
        self._most_tail = kept // 4
        self._most_head = kept - self._most_tail
        self._head = bytearray()
        self._tail = bytearray()
        self.written = 0
        """Bytes that came."""

    @property
    def cut(self) -> int:
        """Bytes left out."""
        return self.written - len(self._head) - min(len(self._tail), self._most_tail)

    def feed(self, data: bytes) -> None:
        """Take what came next."""
        self.written += len(data)
        room = self._most_head - len(self._head)
        if room:
            self._head += data[:room]
            data = data[room:]
        if data:
            # Shortened only when it has doubled: each byte is moved once, however small the pieces.
            self._tail += data[-self._most_tail :] if self._most_tail else b""
            if len(self._tail) > 2 * self._most_tail:
                del self._tail[: len(self._tail) - self._most_tail]

    def text(self) -> str:
        """What is kept; bytes that are no UTF-8, half characters at a cut too, become U+FFFD."""
        tail = self._tail[-self._most_tail :] if self._most_tail else b""
        if not self.cut:
            return (self._head + tail).decode("utf-8", "replace")
        head = self._head.decode("utf-8", "replace")
        notice = f"\n[... {self.cut} bytes cut ...]\n"
        return head + notice + bytes(tail).decode("utf-8", "replace")
