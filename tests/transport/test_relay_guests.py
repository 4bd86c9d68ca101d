"""Whoever comes to a relay that has no roster yet: what it may cost, and whom it keeps out."""

import contextlib
import gc
import socket
import struct
import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from peerloom.transport import Roster
from peerloom.transport.blocking_stream import BlockingStream
from peerloom.transport.relay import server as server_module
from peerloom.transport.relay.dialling import client_context
from peerloom.transport.relay.messages import CONTROL_ALPN, GUEST, MessageReader, Word, encode
from peerloom.transport.rosterfile import LARGEST_ROSTER, bears_certificate
from peerloom.transport.tls_stream import TlsStream
from tests.federation import federation, identity, until
from tests.relays import RelayThread, roster_with, without_port

BOTH = [(0, 1), (1, 0)]


class Guest(threading.Thread):
    """Says HELLO and sends some bytes, then is silent until it is cut off."""

    def __init__(self, relay, said, source="127.0.0.2"):
        super().__init__(daemon=True)
        self.relay, self.said, self.source = relay, said, source
        self.sock = socket.create_connection(("127.0.0.1", relay.port), 5.0, (source, 0))
        self.start()

    def run(self):
        late = time.monotonic() + 20.0
        context = client_context(None, self.relay.entry, CONTROL_ALPN)
        with contextlib.suppress(OSError), contextlib.closing(self.sock):
            stream = TlsStream(self.sock, context, server_side=False, hostname=GUEST)
            stream.handshake(late)
            talk = BlockingStream(stream, late)
            talk.sendall(encode(Word.HELLO, versions=[1, 1], roster_version=1, takes_calls=False))
            talk.sendall(self.said)
            while talk.recv_into(memoryview(bytearray(64))):
                pass


def held():
    """Bytes that readers of messages hold."""
    return sum(len(each._held) for each in gc.get_objects() if type(each) is MessageReader)


def test_few_rosters_are_gathered_at_a_time_and_the_true_one_gets_through(tmp_path):
    """Each guest sends all but the end of a message of 4 MB, and comes again when it is cut."""
    part = struct.pack("!I", LARGEST_ROSTER) + bytes(LARGEST_ROSTER - 100)
    stop, most = threading.Event(), [0]

    def flood():
        guests = []
        while not stop.wait(0.02):
            guests = [guest for guest in guests if guest.is_alive()]
            while len(guests) < 12:
                guests.append(Guest(relay, part))
            most[0] = max(most[0], held())
        for guest in guests:
            guest.sock.close()

    with RelayThread() as relay:
        thread = threading.Thread(target=flood)
        thread.start()
        try:
            assert until(lambda: relay.server.refusals["too_many"] >= 10)
            assert until(lambda: most[0] > LARGEST_ROSTER // 2)
            roster = roster_with(2, BOTH, [relay.entry])
            with without_port(0, roster, tmp_path) as a, without_port(1, roster, tmp_path) as b:
                assert until(lambda: all(link.up for link in (*a.links(), *b.links())))
        finally:
            stop.set()
            thread.join()
        assert most[0] <= 2 * (LARGEST_ROSTER + (1 << 16))
        assert relay.server.roster == roster


def test_a_roster_that_the_founder_did_not_sign_is_not_even_parsed(tmp_path, monkeypatch):
    """Reading 4 MB of numbers takes most of a second, for which everybody else waits."""
    parsed, take = [], server_module.Roster.from_bytes
    monkeypatch.setattr(
        server_module.Roster,
        "from_bytes",
        lambda data, founder: parsed.append(len(data)) or take(data, founder),
    )
    numbers = b'{"roster":{"format":2,"a":[' + b"1," * 1_000_000 + b"1]}}"
    with RelayThread() as relay:
        members = federation(3, []).members
        other = Roster(identity(2).id, 1, 0, members, ()).signed(identity(2))
        for document in (numbers, other.to_bytes(), b"", b"{}"):
            before = relay.server.refusals["roster"]
            Guest(relay, encode(Word.ROSTER, document=document))
            assert until(lambda before=before: relay.server.refusals["roster"] > before)
        assert not parsed
        roster = roster_with(2, BOTH, [relay.entry])
        Guest(relay, encode(Word.ROSTER, document=roster.to_bytes()))
        assert until(lambda: relay.server.roster is not None)


@given(st.binary(max_size=200), st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_bear_a_certificate_or_not(a, b, c):
    known = identity(1).certificate.replace(b"\n", b"\\n")
    own = b'"certificate": "%s"' % known
    for inside in (b'"certificate": "' + c + b'"', own):
        data = b"{" + a + inside + b'\n "roster": {' + b + b'\n "signatures": [' + c
        bears_certificate(data, identity(0).id)
    assert bears_certificate(data, identity(1).id)
    assert not bears_certificate(own + b'\n "roster": {', identity(1).id)
