"""TLS in memory over a socket: what was sent arrives, and a selector learns of all of it."""

import select
import socket
import ssl
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom.transport.tls import client_context, reason_of, server_context
from peerloom.transport.tls_stream import TlsStream
from tests.federation import federation, free_ports, identity

ROSTER = federation(2, [(0, 1)], free_ports(2))
CONTEXTS = client_context(identity(0), ROSTER), server_context(identity(1), ROSTER)
EDGES = (1, 16383, 16384, 16385, 131071, 131072, 131073, 262143, 262144, 262145)


def pair(room: int) -> tuple[TlsStream, TlsStream]:
    """Both ends, greeted, over sockets that take `room` bytes at a time."""
    sockets = socket.socketpair()
    for sock in sockets:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room)
    ours, theirs = (
        TlsStream(sock, context, server_side=side)
        for sock, context, side in zip(sockets, CONTEXTS, (False, True), strict=True)
    )
    late = time.monotonic() + 10.0
    thread = threading.Thread(target=theirs.handshake, args=(late,))
    thread.start()
    ours.handshake(late)
    thread.join()
    return ours, theirs


class End:
    """One end: what it has to send, what it has received."""

    def __init__(self, stream: TlsStream, content: bytes) -> None:
        self.stream, self.content = stream, memoryview(content)
        self.room, self.received = memoryview(bytearray(32768)), bytearray()

    def write(self) -> bool:
        if not self.stream.flush() or not self.content:
            return False
        self.content = self.content[self.stream.encrypt(self.content) :]
        self.stream.flush()
        return True

    def read(self) -> bool:
        """Read if a selector would say so; whether there was anything."""
        ready = select.select([self.stream], [], [], 0)[0]
        if not ready and not self.stream.pending:
            return False
        count = self.stream.read_into(self.room)
        self.received += self.room[:count]
        return True


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(EDGES), max_size=4),
    st.lists(st.sampled_from(EDGES), max_size=4),
    st.sampled_from((2048, 20000, 1 << 20)),
)
def test_all_arrives_both_ways_and_nothing_waits_unseen(there, back, room):
    ends = [
        End(stream, bytes(range(251)) * (sum(sizes) // 251 + 1))
        for stream, sizes in zip(pair(room), (there, back), strict=True)
    ]
    wanted = [bytes(end.content) for end in reversed(ends)]
    steps = 1
    while steps:
        steps = sum(end.write() + end.read() + end.stream.blocked for end in ends)
    assert [bytes(end.received) for end in ends] == wanted
    for end in ends:
        end.stream.close()


def test_a_handshake_that_drips_ends_in_time():
    ours, theirs = socket.socketpair()
    theirs.send(b"\x16\x03\x01")
    stream = TlsStream(ours, CONTEXTS[1], server_side=True)
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        stream.handshake(begin + 0.2)
    assert time.monotonic() - begin < 5.0
    stream.close()
    theirs.close()


def test_plain_text_is_told_from_tls():
    ours, theirs = socket.socketpair()
    theirs.send(b"GET / HTTP/1.1\r\n\r\n")
    stream = TlsStream(ours, CONTEXTS[1], server_side=True)
    with pytest.raises(ssl.SSLError) as found:
        stream.handshake(time.monotonic() + 5.0)
    assert reason_of(found.value) == "plain_text"
    stream.close()
    theirs.close()


def test_an_end_within_a_record_is_the_end():
    ours, theirs = pair(1 << 20)
    theirs.encrypt(memoryview(bytes(16384)))
    part = theirs._outgoing.read()[:100]
    theirs._sock.send(part)
    room = memoryview(bytearray(32768))
    assert ours.read_into(room) == 0
    theirs.close()
    with pytest.raises(ConnectionError):
        ours.read_into(room)
    ours.close()
