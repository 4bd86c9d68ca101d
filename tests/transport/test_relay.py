"""Peers without a port, a relay between them that can read nothing, and what may go wrong."""

import asyncio
import contextlib
import socket
import threading
import time
from dataclasses import replace

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.ends import endpoint, federation
from peerloom.errors import ConfigError
from peerloom.transport import Link, Member, Roster
from peerloom.transport.blocking_stream import BlockingStream
from peerloom.transport.frames import FrameError
from peerloom.transport.members import Relay, parse_address
from peerloom.transport.outbound import Outbound, Proxy, WayError
from peerloom.transport.relay.client import RelayClient
from peerloom.transport.relay.control import Control
from peerloom.transport.relay.dialling import client_context, connect_tls
from peerloom.transport.relay.limits import Limits
from peerloom.transport.relay.messages import CONTROL_ALPN, GUEST, MessageReader, Word, encode
from peerloom.transport.relay.server import RelayServer
from peerloom.transport.tls_stream import cut
from tests.federation import (
    QUICK,
    RUN,
    free_ports,
    identity,
    numbers,
    outgoing,
    parcel,
    until,
)  # fmt: skip
from tests.relays import PATIENT, RelayThread, relayed, roster_with, without_port

BOTH = ((0, 1), (1, 0))
BARE, WRAPPED = Outbound(), Outbound(wrapped=True)


@pytest.fixture(autouse=True)
def nothing_left():
    before = threading.active_count()
    yield
    assert until(lambda: threading.active_count() <= before + 2), [
        thread.name for thread in threading.enumerate()
    ]


def rounds(a, b, first, last):
    for round in range(first, last):
        a.send(b.me, parcel(round))
        b.send(a.me, parcel(round, value=-round))
        assert (numbers(a.take(b.me, round, 0, 10.0)) == -round).all()
        assert (numbers(b.take(a.me, round, 0, 10.0)) == round).all()


def ways(*ends):
    return {link.way for end in ends for link in end.links()}


class Watched:
    """An end that keeps what passes, as a curious relay would."""

    def __init__(self, end, seen):
        self._end, self._seen = end, seen
        self.fileno, self.close, self.write, self.flush = (
            end.fileno,
            end.close,
            end.write,
            end.flush,
        )

    @property
    def pending(self):
        return self._end.pending

    def read_into(self, view):
        count = self._end.read_into(view)
        self._seen += view[:count]
        return count


class Curious(RelayServer):
    seen = bytearray()

    def _arrived(self, token, end):
        super()._arrived(token, Watched(end, self.seen))


@pytest.mark.parametrize("outbounds", [(BARE, BARE), (WRAPPED, BARE), (WRAPPED, WRAPPED)])
def test_two_peers_without_a_port_meet_at_a_relay_that_learns_nothing(tmp_path, outbounds):
    Curious.seen = bytearray()
    with (
        RelayThread(kind=Curious) as relay,
        relayed(tmp_path, relay, outbounds=outbounds) as (a, b),
    ):
        rounds(a, b, 1, 20)
        assert a.settle(None, 5.0)
        assert b.settle(None, 5.0)
        assert ways(a, b) == {"relay:relay-0"}
        assert outgoing(a).tally.acked == 19
        assert a.port == 0
        a.send(b.me, parcel(20, channel=1))  # 80 KB: more than one record
        assert (numbers(b.take(a.me, 20, 0, 5.0)) == 20).all()
    seen = bytes(Curious.seen)
    assert len(seen) > 19 * 2 * 80 + 80_000
    vector = np.full(8, 7.0).tobytes()
    certificate = identity(0).certificate[60:120]
    for secret in (vector, b"run-1", b"PLM1", certificate, identity(1).id.encode()):
        assert secret not in seen


def test_ipv6(tmp_path):
    with RelayThread(host="::1") as relay, relayed(tmp_path, relay) as (a, b):
        rounds(a, b, 1, 4)
        assert ways(a, b) == {"relay:relay-0"}


def test_the_direct_way_has_a_head_start_and_a_relay_stands_in_for_it(tmp_path):
    """Direct if it works; through the relay while it does not; and back when it does again."""
    (port,) = free_ports(1)
    settings = replace(QUICK, relay_after=2.0, direct_again=0.5, wait=20.0)
    with RelayThread() as relay:
        roster = federation(2, BOTH, [f"127.0.0.1:{port}", ""], relays=(relay.entry,))
        with without_port(1, roster, tmp_path, settings=settings) as b:
            listen = ("127.0.0.1", port)
            with endpoint(0, roster, tmp_path, settings=settings, listen=listen, run=RUN) as a:
                rounds(a, b, 1, 4)
                assert ways(a, b) == {"direct"}
            assert until(lambda: not any(link.up for link in b.links()))
            with without_port(0, roster, tmp_path, settings=settings) as a:  # its port is closed
                rounds(a, b, 4, 8)
                assert ways(a, b) == {"relay:relay-0"}
                with socket.create_server(listen):  # a firewall that accepts and says nothing
                    time.sleep(0.8)
                    rounds(a, b, 8, 10)
                    assert ways(a, b) == {"relay:relay-0"}
                a._driver._listener._socket = socket.create_server(listen)  # the port is opened
                assert until(lambda: ways(a, b) == {"direct"})
                rounds(a, b, 10, 14)


# -- a relay that goes, and one that lies


def test_nothing_is_lost_when_a_relay_goes_and_comes_back(tmp_path):
    with RelayThread() as relay:
        roster = roster_with(2, BOTH, [relay.entry])
        with (
            without_port(0, roster, tmp_path, settings=PATIENT) as a,
            without_port(1, roster, tmp_path, settings=PATIENT) as b,
        ):
            rounds(a, b, 1, 5)
            relay.stop()
            assert until(lambda: not any(link.up for link in a.links())), "known at once"
            receipt = a.send(b.me, parcel(5))
            with RelayThread(port=relay.port):
                assert (numbers(b.take(a.me, 5, 0, 10.0)) == 5).all()
                b.send(a.me, parcel(5, value=-5))
                assert (numbers(a.take(b.me, 5, 0, 10.0)) == -5).all()
                rounds(a, b, 6, 9)
                assert a.settle(None, 5.0)
                assert receipt.outcome == "acked"
                tally = outgoing(a).tally
                assert (tally.acked, tally.balanced) == (8, True)


def test_a_second_relay_takes_over(tmp_path):
    with RelayThread(0) as one, RelayThread(1) as two:
        roster = roster_with(2, BOTH, [one.entry, two.entry])
        with without_port(0, roster, tmp_path) as a, without_port(1, roster, tmp_path) as b:
            assert until(lambda: len(one.server.present) == len(two.server.present) == 2)
            rounds(a, b, 1, 5)
            (used,) = ways(a, b)
            first, second = (one, two) if used == "relay:relay-0" else (two, one)
            first.stop()
            rounds(a, b, 5, 9)
            assert ways(a, b) == {f"relay:{second.entry.name}"}


class Choosy(RelayServer):
    """Does not let member 1 in."""

    def _welcome(self, control, hello):
        if control.who == identity(1).id:
            raise ConnectionError("closed")
        super()._welcome(control, hello)


def test_the_caller_takes_the_relay_where_the_other_is(tmp_path):
    with RelayThread(0, kind=Choosy) as one, RelayThread(1) as two:
        roster = roster_with(2, BOTH, [one.entry, two.entry])
        with without_port(0, roster, tmp_path) as a, without_port(1, roster, tmp_path) as b:
            rounds(a, b, 1, 3)
            assert ways(a, b) == {"relay:relay-1"}
            late = time.monotonic() + 10
            with contextlib.closing(a._driver._ways.reach(b.me, late).stream) as stream:
                assert stream.protocol, "also when the side that is at both of them calls"


class Crooked(RelayServer):
    """Joins whoever calls with member 2."""

    def _dial(self, control, ref, to):
        super()._dial(control, ref, to if control.who == identity(2).id else identity(2).id)

    def _may_meet(self, one, other):
        return True

    def _use(self, roster):
        super()._use(roster)
        self._neighbours = {m.id: {o.id for o in roster.members} for m in roster.members}


def test_a_relay_that_joins_the_wrong_two_is_found_out(tmp_path):
    """It may cut, delay and mix up; it cannot pass one member off as another."""
    with RelayThread(kind=Crooked) as relay:
        roster = roster_with(3, [(0, 1), (2, 1)], [relay.entry])
        with (
            without_port(0, roster, tmp_path) as a,
            without_port(1, roster, tmp_path) as b,
            without_port(2, roster, tmp_path) as c,
        ):
            receipt = a.send(b.me, parcel(1))
            assert until(lambda: "wrong_peer" in outgoing(a).reconnects), outgoing(a).reconnects
            assert receipt.outcome == "pending"
            assert not outgoing(a).up
            assert a.me not in {link.peer for link in c.links()}


class Liar(RelayServer):
    """Says that member 2 calls when member 0 does."""

    def _dial(self, control, ref, to):
        call = self.present[to].send if to in self.present else None
        if call is not None:
            self.present[to].send = lambda word, **fields: call(
                word, **(fields | ({"caller": identity(2).id} if "caller" in fields else {}))
            )
        super()._dial(control, ref, to)


def test_a_relay_that_lies_about_the_caller_is_found_out(tmp_path):
    with RelayThread(kind=Liar) as relay:
        roster = roster_with(3, [(0, 1), (2, 1)], [relay.entry])
        with without_port(0, roster, tmp_path) as a, without_port(1, roster, tmp_path) as b:
            assert until(lambda: "wrong_peer" in b.refusals() or "wrong_peer" in a.refusals())
            assert not any(link.up for link in a.links())


def test_a_relay_with_another_key_is_not_used(tmp_path):
    with RelayThread() as relay:
        key = identity(101).certificate.decode()
        entry = Relay("relay-0", key, relay.entry.addresses)
        roster = roster_with(2, BOTH, [entry])
        told = []
        with without_port(0, roster, tmp_path, on_event=told.append):
            assert until(lambda: any(event.kind == "relay" for event in told))
            assert "unknown_certificate" in told[0].text
            assert not relay.server.present
            assert relay.server.roster is None, "it is not shown the roster either"


@contextlib.contextmanager
def one_peer(tmp_path, relay, roster):
    with without_port(0, roster, tmp_path) as a:
        assert until(lambda: identity(0).id in relay.server.present)
        yield a


# -- who may use it, and how much


class Dialler:
    """A client of a relay without a peer behind it."""

    def __init__(self, number, relay, roster, outbound=BARE):
        self._roster, self.told = roster, []
        self.client = RelayClient(relay.entry, identity(number), outbound, self)

    def roster(self):
        return self._roster

    def shown(self, document, relay):
        pass

    def knows(self, caller):
        return self._roster.has(caller)

    def called(self, carrier, caller, relay):
        carrier.close()

    def present(self, peer):
        pass

    def tell(self, text):
        self.told.append(text)

    def __enter__(self):
        self.client.start()
        return self

    def __exit__(self, *ignored):
        self.client.stop()

    def dial(self, number):
        self.client.dial(identity(number).id, time.monotonic() + 2.0).close()


def hears_nothing(relay, data):
    """Whether a connection that says this is closed without an answer."""
    with socket.create_connection(("127.0.0.1", relay.port), timeout=5) as sock:
        sock.sendall(data)
        with contextlib.suppress(ConnectionResetError):
            return sock.recv(1) in (b"", b"\x15")  # at most an alert of TLS
        return True


def test_strangers_and_members_without_a_link_are_refused(tmp_path):
    with RelayThread() as relay:
        roster = roster_with(3, BOTH, [relay.entry])  # 2 is a member without links
        with (
            one_peer(tmp_path, relay, roster) as a,
            Dialler(2, relay, roster) as member,
            Dialler(9, relay, roster) as stranger,
        ):
            assert until(lambda: member.client.up)
            with pytest.raises(WayError, match="not_a_neighbour"):
                member.dial(0)
            assert until(lambda: stranger.told)
            assert "not_admitted" in stranger.told[0] or "closed" in stranger.told[0]
            assert not stranger.client.up
            with pytest.raises(WayError, match="no_relay"):
                stranger.dial(0)
            assert hears_nothing(relay, b"PLR1" + bytes(32))
            assert hears_nothing(relay, b"GET / HTTP/1.1\r\nHost: relay\r\n\r\n" + bytes(64))
            assert hears_nothing(relay, b"\x16\x03\x01" + bytes(512))
            refused = relay.server.refusals
            for why in ("not_a_neighbour", "unknown_certificate", "wrong_token", "not_a_frame"):
                assert refused[why], refused
            assert outgoing(a).peer == identity(1).id


def test_a_guest_brings_no_roster_to_a_relay_that_has_one(tmp_path):
    """Without a key, with a roster that the founder did sign: members alone are heard."""
    with RelayThread() as relay:
        roster = roster_with(2, BOTH, [relay.entry])
        newer = roster.amended(identity(0), run="newer")
        with one_peer(tmp_path, relay, roster):
            late = time.monotonic() + 10
            context = client_context(None, relay.entry, CONTROL_ALPN)
            stream = connect_tls(BARE, relay.entry, context, late, hostname=GUEST)
            with contextlib.closing(stream):
                talk = BlockingStream(stream, late)
                hello = {"versions": [1, 1], "roster_version": 2, "takes_calls": True}
                with contextlib.suppress(OSError):
                    talk.sendall(encode(Word.HELLO, **hello))
                    talk.sendall(encode(Word.ROSTER, document=newer.to_bytes()))
                with pytest.raises(ConnectionError):
                    talk.recv_into(memoryview(bytearray(1)))
            assert until(lambda: relay.server.refusals["no_certificate"])
            assert relay.server.roster.version == roster.version
            assert list(relay.server.present) == [identity(0).id]


def test_only_a_founder_lets_strangers_in(tmp_path):
    """Or any member could, for itself or in place of the founder whom a newcomer looks for."""
    token = bytes(range(32))
    with RelayThread() as relay:
        roster = roster_with(2, BOTH, [relay.entry])
        with Dialler(0, relay, roster) as founder, Dialler(1, relay, roster) as member:
            calls = {0: [], 1: []}
            for number, one in enumerate((founder, member)):
                one.called = lambda carrier, who, entry, n=number: calls[n].append(carrier)
                assert until(lambda one=one: one.client.up)
            founder.client.expect(token)
            assert until(lambda: token in relay.server._expected)
            member.client.expect(token)
            assert until(lambda: relay.server.refusals["out_of_turn"])
            where = parse_address(relay.entry.addresses[0])
            with socket.create_connection(where, timeout=10) as newcomer:
                newcomer.sendall(b"PLR1" + token)
                assert newcomer.recv(1) == b"\x01"
            assert until(lambda: calls[0]), "as without the member"
            assert not calls[1]
            for carrier in calls[0]:
                carrier.close()


def test_who_is_no_founder_any_more_lets_no_strangers_in():
    """Neither with the invitations that the relay knew, nor over streams of newcomers."""
    token = bytes(range(32))
    with RelayThread() as relay:
        first = roster_with(2, BOTH, [relay.entry])
        ids = tuple(identity(number).id for number in range(2))
        both = first.amended(identity(0), founders=ids).signed(identity(1))
        with Dialler(0, relay, both) as founder, Dialler(1, relay, both) as other:
            calls = []
            other.called = lambda carrier, who, entry: calls.append(carrier)
            assert until(lambda: founder.client.up and other.client.up)
            other.client.expect(token)
            assert until(lambda: token in relay.server._expected)
            where = parse_address(relay.entry.addresses[0])
            with socket.create_connection(where, timeout=10) as newcomer:
                newcomer.sendall(b"PLR1" + token)
                assert newcomer.recv(1) == b"\x01"
                founder._roster = both.amended(identity(0), founders=ids[:1])
                assert founder.client.brought(time.monotonic() + 10.0)
                assert newcomer.recv(1) == b"", "its stream is cut"
            assert other.client.up, "it is a member still"
            assert hears_nothing(relay, b"PLR1" + token)
            assert len(calls) == 1
            calls[0].close()


def test_a_token_is_good_once_for_its_side_and_for_a_short_time(tmp_path):
    with RelayThread() as relay:
        roster = roster_with(2, BOTH, [relay.entry])
        with one_peer(tmp_path, relay, roster):
            server = relay.server
            ours, theirs = server.streams.announce(identity(0).id, identity(1).id)
            meeting, _ = server.streams.tokens[theirs]
            meeting.until += 60
            where = parse_address(relay.entry.addresses[0])
            with socket.create_connection(where, timeout=10) as first:
                first.sendall(b"PLR1" + ours)
                assert until(lambda: ours not in server.streams.tokens)
                assert hears_nothing(relay, b"PLR1" + ours), "used"
                assert theirs in server.streams.tokens
                meeting.until = 0.0  # its time is over
                assert until(lambda: theirs not in server.streams.tokens)
                assert first.recv(1) == b""
            assert hears_nothing(relay, b"PLR1" + theirs)


def test_a_removed_member_is_cut_off_at_once(tmp_path):
    with RelayThread() as relay, relayed(tmp_path, relay) as (a, b):
        rounds(a, b, 1, 4)
        assert relay.server.streams.joined
        a.adopt(a.roster.without_member(identity(0), "peer-1"))
        assert until(lambda: not relay.server.streams.joined, 2.0)
        # The two may have ended their stream before the relay had the roster.
        assert until(lambda: set(relay.server.present) == {a.me}, 2.0)
        assert not until(lambda: b.me in relay.server.present, 0.3)
        assert relay.server.roster.version == 2


@pytest.mark.parametrize("change", ["member", "link"])
def test_the_relay_itself_cuts_streams_that_a_newer_roster_forbids(change):
    """The two ends are silent: what ends their stream is the relay alone."""
    with RelayThread() as relay:
        roster = roster_with(2, BOTH, [relay.entry])
        with Dialler(0, relay, roster) as caller, Dialler(1, relay, roster) as callee:
            halves = []
            callee.called = lambda carrier, who, entry: halves.append(carrier)
            assert until(lambda: caller.client.up and callee.client.up)
            carrier = caller.client.dial(identity(1).id, time.monotonic() + 5)
            assert until(lambda: halves and relay.server.streams.joined)
            if change == "member":
                newer = roster.without_member(identity(0), "peer-1")
            else:
                ids = identity(0).id, identity(1).id
                newer = roster.without_links(identity(0), [ids, ids[::-1]])
            relay.server._loop.call_soon_threadsafe(relay.server.take, newer.to_bytes())
            for end in (carrier, *halves):
                with contextlib.closing(end):
                    end.settimeout(5)
                    assert end.recv(1) == b""
            assert until(lambda: not relay.server.streams.joined)
            assert (identity(1).id in relay.server.present) == (change == "link")


def test_a_fork_and_an_older_roster_change_nothing(tmp_path):
    kept = []
    with RelayThread(keep=kept.append) as relay:
        roster = roster_with(2, BOTH, [relay.entry])
        second = roster.amended(identity(0), run="second")
        fork = roster.amended(identity(0), run="fork")
        with Dialler(0, relay, second) as honest, Dialler(1, relay, fork) as liar:
            assert until(lambda: honest.client.up and relay.server.roster.version == 2)
            used = relay.server.roster.run
            for document in (fork, second, roster):
                client = liar.client
                with client._change:
                    client._outgoing.append(encode(Word.ROSTER, document=document.to_bytes()))
                    client._wake()
                time.sleep(0.1)
            assert until(lambda: relay.server.refusals["roster_fork"])
            assert relay.server.roster.run == used
            assert kept[-1].run == used


def test_two_federations_do_not_share_a_relay(tmp_path):
    with RelayThread() as relay:
        ours = roster_with(2, BOTH, [relay.entry])
        keys = [identity(n) for n in (20, 21)]
        members = tuple(Member(f"other-{k.id[:4].lower()}", k.certificate.decode()) for k in keys)
        links = (Link(keys[0].id, keys[1].id), Link(keys[1].id, keys[0].id))
        theirs = Roster(keys[0].id, 1, 0, members, links).signed(keys[0])
        with one_peer(tmp_path, relay, ours), Dialler(20, relay, theirs) as other:
            assert until(lambda: relay.server.refusals["unknown_certificate"])
            assert not other.client.up
            assert relay.server.roster.founder == identity(0).id


def test_floods_do_not_disturb_an_open_stream(tmp_path):
    limits = Limits(handshake=0.5, per_address=16, dials=0.1)
    with RelayThread(limits=limits) as relay, relayed(tmp_path, relay) as (a, b):
        rounds(a, b, 1, 4)
        held = []
        for _ in range(150):
            with contextlib.suppress(OSError):
                held.append(socket.create_connection(("127.0.0.1", relay.port), timeout=1))
        assert until(lambda: relay.server.refusals["handshake_flood"] >= 100)
        rounds(a, b, 4, 10)
        assert until(lambda: not relay.server._acceptor.unfinished, 3.0), "half a second, no longer"
        for sock in held:
            sock.close()
        client = next(iter(a._driver._ways._clients.values()))
        denied = set()
        for _ in range(60):  # a member that asks too often
            with pytest.raises(WayError) as refusal:
                client.dial(a.me, time.monotonic() + 1)  # itself
            denied.add(refusal.value.why)
        for _ in range(60):
            with client._change:
                ref = next(client._refs)
                client._outgoing.append(encode(Word.DIAL, ref=ref, to=b.me))
                client._wake()
        assert denied == {"not_a_neighbour"}
        assert until(
            lambda: relay.server.refusals["too_many"] or relay.server.refusals["too_often"]
        )
        assert len(relay.server.streams.tokens) <= 2 * limits.streams_per_pair
        rounds(a, b, 10, 14)


def fill(carrier):
    """Send until nothing more is taken for a second; how much was."""
    sent = 0
    carrier.settimeout(1.0)
    with contextlib.suppress(TimeoutError):
        while sent < 1 << 30:
            sent += carrier.send(bytes(1 << 20))
    return sent


class Stuck:
    """A TLS stream whose other side reads nothing."""

    def __init__(self, fileno):
        self.waiting, self.ended, self._fileno = 0, False, fileno

    def fileno(self):
        return self._fileno

    def encrypt(self, data):
        self.waiting += len(data)

    def flush(self):
        return False

    def cut(self):
        self.ended = True


def test_who_does_not_listen_is_cut_off_and_costs_a_bounded_memory():
    async def talk():
        with contextlib.closing(socket.socket()) as sock:
            stream = Stuck(sock.fileno())
            control = Control(stream, "someone", "127.0.0.1", Limits(unread=4096))
            for number in range(4096):
                control.send(Word.PONG, n=number)
            assert stream.ended
            assert stream.waiting < 4096 + 64
            control._stop_writing()

    asyncio.run(talk())


def test_a_member_that_talks_without_end_is_cut_off(tmp_path):
    with RelayThread() as relay, relayed(tmp_path, relay) as (a, b):
        rounds(a, b, 1, 3)
        client = next(iter(a._driver._ways._clients.values()))
        with client._change:
            client._outgoing.append(encode(Word.PING, n=1) * 1000)
            client._wake()
        assert until(lambda: relay.server.refusals["too_fast"])
        rounds(a, b, 3, 6)
        assert until(lambda: len(relay.server.present) == 2), "it may come again"


def test_a_byte_budget_slows_a_member_and_breaks_nothing(tmp_path):
    with (
        RelayThread(limits=Limits(rate=400_000)) as relay,
        relayed(tmp_path, relay, settings=PATIENT) as (a, b),
    ):
        rounds(a, b, 1, 2)
        begin = time.monotonic()
        for round in range(2, 12):  # 800 KB, of which 400 are a burst
            a.send(b.me, parcel(round, channel=1))
            b.take(a.me, round, 0, 20.0)
        assert time.monotonic() - begin > 0.7
        assert all(link.up for link in a.links())
        assert not any(link.reconnects for link in a.links() if "closed" in link.reconnects)


def test_a_slow_reader_holds_up_nobody_else(tmp_path):
    """One pair does not read at all: its sender waits, its memory is bounded, others go on."""
    with RelayThread() as relay:
        pairs = [(0, 1), (1, 0), (2, 3), (3, 2)]
        roster = roster_with(4, pairs, [relay.entry])
        with (
            without_port(0, roster, tmp_path) as a,
            without_port(1, roster, tmp_path) as b,
            Dialler(2, relay, roster) as sender,
            Dialler(3, relay, roster) as reader,
        ):
            halves = []
            reader.called = lambda carrier, caller, relay: halves.append(carrier)
            assert until(lambda: sender.client.up and reader.client.up)
            carrier = sender.client.dial(identity(3).id, time.monotonic() + 5)
            assert fill(carrier) < 64 << 20, "backpressure reaches the sender"
            rounds(a, b, 1, 20)
            carrier.close()
            for half in halves:
                half.close()


@given(st.binary(max_size=700))
def test_any_bytes_are_messages_or_refused(data):
    reader = MessageReader()
    with contextlib.suppress(FrameError):
        reader.feed(data)
        while reader.next() is not None:
            pass


@given(st.lists(st.one_of(st.integers(), st.text(max_size=80), st.binary(max_size=40)), max_size=9))
def test_any_array_is_a_message_of_the_schema_or_refused(values):
    packed = msgpack.packb(
        [value if not isinstance(value, int) else value % 2**40 for value in values]
    )
    reader = MessageReader()
    reader.feed(len(packed).to_bytes(4, "big") + packed)
    try:
        message = reader.next()
    except FrameError:
        return
    assert encode(message.word, **message.fields)[4:] == packed


# -- a site behind a proxy


class HttpProxy(threading.Thread):
    """A site's HTTP proxy: CONNECT only, with a password."""

    def __init__(self):
        super().__init__(name="proxy", daemon=True)
        self.server, self.asked = socket.create_server(("127.0.0.1", 0)), []
        self._open = []
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.server.accept()
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += client.recv(1)
                self.asked.append(head)
                if b"Basic c2l0ZTpzZWNyZXQ=" not in head:
                    client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                    client.close()
                    continue
                host, port = head.split()[1].decode().rsplit(":", 1)
                target = socket.create_connection((host, int(port)))
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                self._open += [client, target]
                for one, other in ((client, target), (target, client)):
                    threading.Thread(target=self.copy, args=(one, other), daemon=True).start()

    @staticmethod
    def copy(one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def close(self):
        cut(self.server)
        self.join(5)
        self.server.close()
        for sock in self._open:
            cut(sock)
            sock.close()


@pytest.mark.parametrize("wrapped", [False, True])
def test_through_the_proxy_of_a_site(tmp_path, wrapped):
    told = []
    with contextlib.closing(HttpProxy()) as proxy, RelayThread() as relay:
        where = f"127.0.0.1:{proxy.server.getsockname()[1]}"
        through = Outbound(Proxy.read(f"http://site:secret@{where}"), wrapped)
        with relayed(tmp_path, relay, outbounds=(through, None), on_event=told.append) as (a, b):
            rounds(a, b, 1, 6)
            assert ways(a, b) == {"relay:relay-0"}
            assert len(proxy.asked) >= 2  # control, and a stream
            assert all(head.startswith(b"CONNECT 127.0.0.1:") for head in proxy.asked)
        wrong = Outbound(Proxy.read(f"http://site:guessed@{where}"))
        roster = roster_with(2, BOTH, [relay.entry], run="again")
        with without_port(0, roster, tmp_path / "again", outbound=wrong, on_event=told.append):
            assert until(lambda: any("proxy_login" in event.text for event in told))
    said = repr((through, wrong, told))
    assert "secret" not in said
    assert "guessed" not in said


@pytest.mark.parametrize(
    "text", ["", "ftp://a:1", "http://user:hidden@host", "host", "http://h:1/hidden", "http://h:x"]
)
def test_a_proxy_is_named_well_or_refused_without_its_password(text):
    with pytest.raises(ConfigError) as refusal:
        Proxy.read(text)
    assert "hidden" not in str(refusal.value)


def test_a_proxy_whose_answer_never_ends_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = Proxy("127.0.0.1", server.getsockname()[1])

        def babble():
            client, _ = server.accept()
            with client, contextlib.suppress(OSError):
                while True:
                    client.sendall(b"HTTP/1.1 200 OK" + b"x" * 4096)

        thread = threading.Thread(target=babble, daemon=True)
        thread.start()
        with pytest.raises(WayError, match="too long"):
            proxy.connect("relay.example", 443, time.monotonic() + 5)
        thread.join(5)
