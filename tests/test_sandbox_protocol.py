import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.sandbox.output import Output
from agentrl.sandbox.protocol import (
    MAX_FDS,
    MAX_FRAME,
    ProtocolError,
    decode,
    encode,
    receive,
    send,
)
from agentrl.sandbox.verdict import readable_code

values = st.none() | st.booleans() | st.integers() | st.text(max_size=50)
headers = st.dictionaries(st.text(max_size=20), values, max_size=8)


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def open_fds():
    return set(os.listdir("/proc/self/fd"))


@given(headers, st.binary(max_size=2000))
def test_a_frame_comes_out_as_it_went_in(header, body):
    frame = decode(encode(header, body))
    assert (frame.header, frame.body, frame.fds) == (header, body, ())


@given(st.binary(max_size=500))
def test_whatever_comes_is_a_frame_or_refused(data):
    try:
        frame = decode(data)
    except ProtocolError:
        return
    assert isinstance(frame.header, dict)
    assert data.endswith(frame.body)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"\n", b"[1]\n", b'{"a":\n', b"\xff\n", b"[" * 9000 + b"\n", b"9" * 5000]
)
def test_what_is_no_frame_is_refused(data):
    with pytest.raises(ProtocolError):
        decode(data)


def test_a_frame_that_is_too_long_does_not_go_out():
    with pytest.raises(ProtocolError):
        encode({}, b"x" * MAX_FRAME)
    with pytest.raises(ProtocolError):
        encode({"a": "x" * 10_000})


def test_descriptors_come_with_their_frame(pair):
    ours, theirs = pair
    read, write = os.pipe()
    send(ours, {"a": 1}, b"body", [write])
    os.close(write)
    frame = receive(theirs)
    assert (frame.header, frame.body, len(frame.fds)) == ({"a": 1}, b"body", 1)
    os.write(frame.fds[0], b"hello")
    os.close(frame.fds[0])
    assert os.read(read, 10) == b"hello"
    os.close(read)


def test_the_end_is_no_frame(pair):
    ours, theirs = pair
    ours.close()
    assert receive(theirs) is None


@pytest.mark.parametrize(
    ("data", "count"), [(b"junk", 1), (b"{}\n", MAX_FDS + 1), (b"x" * (MAX_FRAME + 2), 1)]
)
def test_descriptors_of_a_refused_frame_are_closed(pair, data, count):
    ours, theirs = pair
    before = open_fds()
    socket.send_fds(ours, [data], [1] * count)
    with pytest.raises(ProtocolError):
        receive(theirs)
    assert open_fds() == before


def test_a_frame_to_somebody_who_reads_nothing_is_refused_at_once(pair):
    ours, _ = pair

    def fill():
        for _ in range(10_000):
            send(ours, {"a": "x" * 1000}, flags=socket.MSG_DONTWAIT)

    with pytest.raises(BlockingIOError):
        fill()


@given(st.lists(st.binary(max_size=40), max_size=40), st.integers(0, 64))
def test_output_keeps_both_ends_and_counts_what_it_cuts(pieces, kept):
    output = Output(kept)
    for piece in pieces:
        output.feed(piece)
    data = b"".join(pieces)
    assert output.written == len(data)
    assert output.cut == max(0, len(data) - kept)
    head, tail = kept - kept // 4, kept // 4
    if output.cut:
        text = f"\n[... {output.cut} bytes cut ...]\n"
        end = data[len(data) - tail :]
        assert output.text() == data[:head].decode(errors="replace") + text + end.decode(
            errors="replace"
        )
    else:
        assert output.text() == data.decode(errors="replace")


def test_output_of_any_length_takes_bounded_memory():
    output = Output(1000)
    for _ in range(2000):
        output.feed(b"x" * 1000)
    assert output.cut == 2_000_000 - 1000
    assert len(output._head) + len(output._tail) <= 2000


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("a\0b", "NUL"),
        ("x" * 70_000, "65536 are the most"),
        ("é" * 40_000, "80000 bytes"),
        ("print('\ud800')", "surrogate"),
        (None, "NoneType"),
        (b"1", "bytes"),
    ],
)
def test_what_is_no_code_is_told_in_words(code, why):
    data, said = readable_code(code)
    assert data == b""
    assert why in said


def test_code_is_handed_on_as_it_is():
    assert readable_code("é = 1\r\n") == ("é = 1\r\n".encode(), "")
