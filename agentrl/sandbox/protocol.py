"""Frames: one datagram is one message, a line of JSON, bytes behind it, and descriptors beside it.

In    a header, a body, descriptors; or what came off a socket, whoever sent it
Out   the datagram; or a Frame, whose descriptors are this process's to close
Not   a stream: a frame is whole or refused, and one that is too long never goes out
"""

from __future__ import annotations

import json
import os
import socket
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_FRAME = 128 * 1024
"""Bytes of one frame: twice the longest code, and below what a socket holds by default."""
MAX_HEADER = 8 * 1024
"""Bytes of its first line."""
MAX_FDS = 4
"""Descriptors beside one frame."""


class ProtocolError(Exception):
    """What came is no frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message."""

    header: Mapping[str, Any]
    body: bytes = b""
    fds: tuple[int, ...] = ()


def encode(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    """A message as one datagram.

    Raises:
        ProtocolError: it is longer than a frame may be.
    """
    line = json.dumps(header, separators=(",", ":")).encode()
    data = line + b"\n" + body
    if len(line) > MAX_HEADER or len(data) > MAX_FRAME:
        raise ProtocolError(f"a frame of {len(data)} bytes is too long")
    return data


def decode(data: bytes) -> Frame:
    """A datagram as a message.

    Raises:
        ProtocolError: it is none.
    """
    line, newline, body = data.partition(b"\n")
    if not newline or len(line) > MAX_HEADER:
        raise ProtocolError("a frame begins with one line")
    try:
        header = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a frame's header is JSON: {error}") from error
    if not isinstance(header, dict):
        raise ProtocolError("a frame's header is a JSON object")
    return Frame(header, body)


def send(
    sock: socket.socket,
    header: Mapping[str, Any],
    body: bytes = b"",
    fds: Sequence[int] = (),
    flags: int = 0,
) -> None:
    """Send one frame. OSError where the other side is gone or, with MSG_DONTWAIT, reads nothing."""
    # `socket.send_fds` and `recv_fds` drop their flags in Python 3.11.
    beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
    sock.sendmsg([encode(header, body)], beside, flags | socket.MSG_NOSIGNAL)


def receive(sock: socket.socket, flags: int = 0) -> Frame | None:
    """The next frame; None at the end.

    Raises:
        ProtocolError: something else came; descriptors beside it are closed.
    """
    room = socket.CMSG_SPACE(MAX_FDS * array("i").itemsize)
    try:
        data, beside, got, _ = sock.recvmsg(MAX_FRAME + 1, room, flags | socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        # The other side left something unread. That is told once, before what it sent itself.
        data, beside, got, _ = sock.recvmsg(MAX_FRAME + 1, room, flags | socket.MSG_CMSG_CLOEXEC)
    fds = array("i")
    for level, kind, sent in beside:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(sent[: len(sent) - len(sent) % fds.itemsize])
    try:
        # More descriptors than fit, or a datagram cut short, is not what was sent.
        if got & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise ProtocolError("a frame was cut short")
        if not data and not fds:
            return None
        frame = decode(data)
    except ProtocolError:
        close_all(fds)
        raise
    return Frame(frame.header, frame.body, tuple(fds))


def close_all(fds: Iterable[int]) -> None:
    """Close descriptors that nobody will use."""
    for fd in fds:
        os.close(fd)
