"""Real TLS links on loopback: once and in order over breaks, and strangers are refused."""

import contextlib
import datetime
import itertools
import pickle
import socket
import ssl
import struct
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization

from peerloom.errors import ConfigError, ExcludedError, PeerError
from peerloom.peers.floats import float_channel, to_body
from peerloom.transport import Endpoint, Identity, Parcel, Roster, Skipped, Wanted, receiver
from peerloom.transport.certificate import self_signed
from peerloom.transport.frames import FrameError, begin, encode, read_prefix
from peerloom.transport.framesocket import FrameSocket
from peerloom.transport.greeting import Greetings
from peerloom.transport.parser import Parser
from peerloom.transport.receiver import Receiver
from peerloom.transport.schemas import VERSION, Kind
from peerloom.transport.tls import ALPN, client_context
from tests.doubles.failpoints import arm
from tests.federation import (
    QUICK,
    RUN,
    Middle,
    endpoint,
    federation,
    free_ports,
    identity,
    incoming,
    numbers,
    outgoing,
    parcel,
    until,
)
from tests.frame_samples import SAMPLES


@pytest.fixture(autouse=True)
def nothing_left():
    before = threading.active_count()
    yield
    arm("")
    assert until(lambda: threading.active_count() <= before + 2), [
        thread.name for thread in threading.enumerate()
    ]


@pytest.fixture
def ports():
    return free_ports(3)


@pytest.fixture(params=["one loop", "several"])
def quick(request):
    """Small parcels share one loop, large ones have threads of their own: both do all."""
    return QUICK if request.param == "one loop" else replace(QUICK, large=0)


@pytest.fixture
def pair(tmp_path, ports, quick):
    roster = federation(2, [(0, 1), (1, 0)], ports)
    with (
        endpoint(0, roster, tmp_path, ports[0], settings=quick) as a,
        endpoint(1, roster, tmp_path, ports[1], settings=quick) as b,
    ):
        yield a, b


# -- the good case


def test_rounds_between_two_peers(pair):
    a, b = pair
    for round in range(1, 30):
        a.send(b.me, parcel(round))
        b.send(a.me, parcel(round, value=-round))
        assert (numbers(a.take(b.me, round, 0, 5.0)) == -round).all()
        got = b.take(a.me, round, 0, 5.0)
        assert (numbers(got) == round).all()
        assert got.peer == a.me
        assert not got.body.flags.writeable
    assert a.settle(None, 5.0)
    tally = outgoing(a).tally
    assert (tally.created, tally.acked, tally.balanced) == (29, 29, True)
    assert incoming(b).frames["applied"] == 29
    assert until(lambda: outgoing(a).rtt is not None and outgoing(a).rtt < 0.5)
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    assert (
        outgoing(a).congestion == "bbr"
        or not available.exists()
        or "bbr" not in available.read_text()
    )


def test_parcels_under_way_are_settled_by_one_answer(tmp_path, ports, monkeypatch, quick):
    roster, acks = federation(2, [(0, 1)], ports), []
    settings = replace(quick, heartbeat=30.0, dead=60.0, window=4)
    monkeypatch.setattr(
        receiver,
        "encode",
        lambda kind, *rest, **named: acks.append(kind) or encode(kind, *rest, **named),
    )
    with (
        endpoint(0, roster, tmp_path, ports[0], settings=settings) as a,
        endpoint(1, roster, tmp_path, ports[1], settings=settings) as b,
    ):
        for round in range(1, 13):
            a.send(b.me, parcel(round))
            assert b.take(a.me, round, 0, 5.0).round == round
        assert acks.count(Kind.ACK) == 3  # 1, 5, 9
        assert until(lambda: outgoing(a).tally.acked == 9)
        assert a.settle(None, 5.0), "without waiting for a heartbeat"
        link = outgoing(a)
        assert (link.tally.acked, link.frames["sent"], link.frames["acked"]) == (12, 12, 12)
        assert link.bytes["acked"] == 12 * 80


def test_exactly_the_bad_ones_among_parcels_under_way_are_refused(pair):
    a, b = pair
    bad = (4, 6, 7, 20)
    receipts = {
        round: a.send(b.me, parcel(round, value=np.nan if round in bad else 1.0))
        for round in range(1, 31)
    }
    for round in range(1, 31):
        if round not in bad:
            assert b.take(a.me, round, 0, 10.0).round == round
    assert a.settle(None, 10.0)
    assert [round for round, receipt in receipts.items() if receipt.outcome == "refused"] == list(
        bad
    )
    assert outgoing(a).tally.acked == 26
    assert incoming(b).frames["applied"] == 26


def test_large_parcels_of_every_agreed_length(pair):
    a, b = pair
    for round, length in ((1, 20_000), (2, 10)):
        body = np.random.default_rng(round).normal(size=length).astype(np.float32)
        a.send(b.me, Parcel(1, round, 0, to_body(body)))
        got = b.take(a.me, round, 0, 5.0)
        np.testing.assert_array_equal(numbers(got), body)


def test_the_caller_may_change_its_array_at_once(pair):
    a, b = pair
    body = np.ones(10)
    a.send(b.me, Parcel(0, 1, 0, body.view(np.uint8)))
    body[:] = 7
    assert (numbers(b.take(a.me, 1, 0, 5.0)) == 1).all()


def test_what_was_not_agreed_is_not_even_queued(pair):
    a, b = pair
    for bad in (Parcel(9, 1, 0, np.zeros(80, np.uint8)), Parcel(0, 1, 0, np.zeros(81, np.uint8))):
        with pytest.raises(ConfigError, match="Channel"):
            a.send(b.me, bad)
    for bad in (np.ones(10), np.ones((2, 40), np.uint8)):
        with pytest.raises(ConfigError, match="carries bytes"):
            a.send(b.me, Parcel(0, 1, 0, bad))
    assert a.send(a.me, parcel(1)).reason == "no_link"
    with pytest.raises(PeerError, match="no link"):
        a.withdraw(a.me, 1)
    assert outgoing(a).tally.created == 0


def test_taking_many_waits_for_all_without_polling(pair):
    a, b = pair
    timer = threading.Timer(0.2, lambda: b.send(a.me, parcel(1)))
    timer.start()
    before = time.process_time()
    got = a.receive_all([Wanted(b.me, 1, 0)], 5.0)
    assert got[Wanted(b.me, 1, 0)].round == 1
    assert time.process_time() - before < 0.15
    timer.join()


def test_a_wait_ends_when_all_is_there_or_a_link_changes(pair):
    table, ready, woken = pair[0]._table, [], []
    assert until(lambda: all(link.up for link in pair[0].links()))

    def sleep():
        with table.lock:
            woken.append("asleep")
            pair[0]._driver.wait(10.0, lambda: bool(ready))
            woken.append("awake")

    def stir(change):
        with table.lock:
            change()
        time.sleep(0.05)

    for last in (lambda: (ready.append(1), table.waiters.arrived()), table.waiters.wake_all):
        ready.clear()
        woken.clear()
        thread = threading.Thread(target=sleep)
        thread.start()
        while not woken:
            time.sleep(0.001)
        stir(table.waiters.arrived)
        assert woken == ["asleep"]
        stir(last)
        thread.join(5.0)
        assert woken == ["asleep", "awake"]


def test_a_round_that_is_skipped_or_late_is_not_waited_for(pair):
    a, b = pair
    a.skip(4)
    assert b.take(a.me, 2, 0, 5.0) == Skipped(2, promised=True)
    begin = time.monotonic()
    assert b.take(a.me, 5, 0, 0.2) is None
    assert 0.15 < time.monotonic() - begin < 1.0
    a.send(b.me, parcel(5))
    a.settle(None, 5.0)
    assert [late.round for late in b.late(a.me)] == [5]
    assert b.late(a.me) == [], "each once"
    assert b.newest(a.me, 0).round == 5


def test_asynchronous_peers_see_the_newest(pair):
    a, b = pair
    seen = 0
    for round in range(1, 200):
        a.send(b.me, parcel(round), mode="latest")
    while b.newest(a.me, 0) is None or b.newest(a.me, 0).round < 199:
        now = b.wait_for_arrivals(seen, 5.0)
        assert now > seen
        seen = now
    a.settle(None, 5.0)
    tally = outgoing(a).tally
    assert tally.balanced
    assert tally.created == 199
    assert tally.superseded > 0


@pytest.mark.slow
@pytest.mark.parametrize("window", [1, 4, 20])
def test_a_peer_that_runs_ahead_waits_without_being_taken_for_dead(window, tmp_path, ports, quick):
    roster = federation(2, [(0, 1)], ports)
    settings = replace(quick, inbox=2, dead=0.8, window=window)
    with (
        endpoint(0, roster, tmp_path, ports[0], settings=settings) as a,
        endpoint(1, roster, tmp_path, ports[1], settings=settings) as b,
    ):
        for round in range(1, 8):
            a.send(b.me, parcel(round))
        assert until(lambda: incoming(b).frames.get("applied") == 2)
        time.sleep(2 * settings.dead)
        link = outgoing(a)
        assert (link.up, incoming(b).frames["applied"]) == (True, 2)
        assert link.tally.acked == 2, "of the third nothing was sent: there is no room"
        assert link.unacked_age > settings.dead
        assert [b.take(a.me, round, 0, 5.0).round for round in range(1, 8)] == list(range(1, 8))
        assert set(outgoing(a).reconnects) <= {"nobody_listens"}


def test_a_late_peer_is_an_event_in_words(tmp_path, ports):
    roster, events = federation(2, [(0, 1)], ports), []
    with endpoint(1, roster, tmp_path, ports[1], on_event=events.append) as b:
        begin = time.monotonic()
        assert b.take(roster.members[0].id, 3, 0, 30.0) is None
        assert QUICK.wait - 0.1 < time.monotonic() - begin < QUICK.wait + 1, (
            "a link that is down is not waited for"
        )
    texts = [event.text for event in events if event.kind == "late"]
    assert len(texts) == 2
    assert "peer-0 is late: 0.3 s, round 3, its link is down" in texts[0]
    assert "peer-0 was given up for round 3" in texts[1]


# -- broken connections


def through_middle(tmp_path, ports, **faults):
    """peer-0 reaches peer-1 through a `Middle` that changes bytes and cuts connections."""
    settings = faults.pop("settings", QUICK)
    middle = Middle(ports[1], **faults)
    # peer-1 finds nobody: it must not go past him.
    roster = federation(2, [(0, 1)], [ports[2], middle.port])
    a = endpoint(0, roster, tmp_path, ports[0], settings=settings)
    return middle, a, endpoint(1, roster, tmp_path, ports[1], settings=settings)


def test_flipped_bytes_and_cuts_change_nothing(tmp_path, ports, quick):
    patient = replace(quick, wait=20.0)  # a link that is cut again and again may be held off
    middle, a, b = through_middle(tmp_path, ports, flip=0.03, cut=0.03, seed=2, settings=patient)
    rounds, ahead = 120, 12
    with a, b:
        for round in range(1, rounds + 1 + ahead):
            if round <= rounds:
                a.send(b.me, parcel(round, channel=1))
            if round > ahead:
                got = b.take(a.me, round - ahead, 0, 20.0)
                assert got.round == round - ahead
                assert (numbers(got) == got.round).all()
        assert a.settle(None, 5.0)
        link = outgoing(a)
        assert (link.tally.acked, link.tally.created, link.tally.balanced) == (rounds, rounds, True)
        assert incoming(b).frames["applied"] == rounds
        assert middle.flips >= 5
        assert middle.cuts >= 5
        assert sum(link.reconnects.values()) >= (middle.flips + middle.cuts) / 2
    middle.close()


def test_a_silent_link_is_found_dead_and_comes_back(tmp_path, ports, quick):
    middle, a, b = through_middle(tmp_path, ports, settings=quick)
    with a, b:
        a.send(b.me, parcel(1))
        assert b.take(a.me, 1, 0, 5.0).round == 1
        middle.blocked = True
        begin = time.monotonic()
        a.send(b.me, parcel(2))
        assert until(lambda: not outgoing(a).up, QUICK.dead + 1.0)
        assert time.monotonic() - begin < QUICK.dead + 0.5
        middle.blocked = False
        begin = time.monotonic()
        assert b.take(a.me, 2, 0, 5.0).round == 2
        assert time.monotonic() - begin < 2.0
    middle.close()


def test_a_replayed_session_is_worth_nothing(tmp_path, ports):
    middle, a, b = through_middle(tmp_path, ports)
    with a, b:
        a.send(b.me, parcel(1))
        assert b.take(a.me, 1, 0, 5.0).round == 1
        applied = dict(incoming(b).frames)
        with socket.create_connection(("127.0.0.1", ports[1])) as thief:
            with contextlib.suppress(OSError):  # the other side may hang up before it has heard all
                for data in list(middle.recorded):
                    thief.sendall(data)
            assert until(lambda: sum(b.refusals().values()) == 1)
        assert dict(incoming(b).frames) == applied
    middle.close()


@pytest.mark.parametrize(
    "point",
    ["before_send", "mid_body", "after_send_before_ack", "after_apply_before_ack", "before_apply"],
)
def test_failures_at_every_point_are_survived(point, pair):
    a, b = pair
    arm(f"{point}=raise@2")
    for round in range(1, 5):
        a.send(b.me, parcel(round, channel=1))
        assert b.take(a.me, round, 0, 5.0).round == round
    assert a.settle(None, 5.0)
    assert incoming(b).frames["applied"] == 4
    assert sum(outgoing(a).reconnects.values()) >= 1
    assert outgoing(a).tally.acked == 4


def test_slow_is_not_dead(tmp_path, ports, monkeypatch):
    """A transfer that takes longer than `dead` but advances is left alone."""
    run = replace(RUN, channels={0: float_channel("float64", [500_000])})
    roster = federation(2, [(0, 1)], ports)
    settings = replace(QUICK, dead=0.8)
    original = Receiver.admit

    def dripping(self, head, header):
        time.sleep(0.12)
        return original(self, head, header)

    with (
        endpoint(0, roster, tmp_path, ports[0], run, settings) as a,
        endpoint(1, roster, tmp_path, ports[1], run, settings) as b,
    ):
        monkeypatch.setattr(Receiver, "admit", dripping)
        begin = time.monotonic()
        a.send(b.me, Parcel(0, 1, 0, to_body(np.ones(500_000))))
        assert b.take(a.me, 1, 0, 20.0) is not None
        assert time.monotonic() - begin > 1.5 * settings.dead
        assert a.settle(None, 5.0)
        assert set(outgoing(a).reconnects) <= {"nobody_listens"}


# -- strangers


def refused(post, reason):
    return until(lambda: post.refusals().get(reason, 0) > 0, 4.0)


def dial(port, context, speak=lambda sock: None):
    with socket.create_connection(("127.0.0.1", port), timeout=3) as raw:
        try:
            with context.wrap_socket(raw, server_hostname="peer") as sock:
                speak(sock)
                return sock.recv(100)
        except OSError:
            return b""


def open_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([ALPN])
    return context


def test_a_wrong_key_is_refused(pair):
    _, b = pair
    context = open_context()
    context.load_cert_chain(identity(9).certificate_file, identity(9).key_file)
    assert dial(b.port, context) == b""
    assert refused(b, "unknown_certificate")


def test_no_certificate_is_refused(pair):
    _, b = pair
    assert dial(b.port, open_context()) == b""
    assert refused(b, "no_certificate")


def test_plain_text_is_refused(pair):
    _, b = pair
    with socket.create_connection(("127.0.0.1", b.port), timeout=3) as raw:
        raw.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert refused(b, "plain_text")


def test_our_own_frames_in_plain_text_are_refused(pair):
    _, b = pair
    with socket.create_connection(("127.0.0.1", b.port), timeout=3) as raw:
        raw.sendall(encode(Kind.PING, {"stamp": 1}))
        assert refused(b, "plain_text")


def test_older_tls_is_refused(pair):
    _, b = pair
    context = open_context()
    context.load_cert_chain(identity(0).certificate_file, identity(0).key_file)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert dial(b.port, context) == b""
    assert refused(b, "old_tls")


def test_another_protocol_is_refused(pair):
    _, b = pair
    context = open_context()
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(identity(0).certificate_file, identity(0).key_file)
    assert dial(b.port, context) == b""
    assert refused(b, "wrong_protocol")


def test_a_wrong_server_is_not_spoken_to(tmp_path, ports):
    """peer-2 answers where peer-1 should: it is a member, and still not the one."""
    roster = federation(3, [(0, 1)], [ports[0], ports[2], ports[2]])
    with endpoint(0, roster, tmp_path, ports[0]) as a, endpoint(2, roster, tmp_path, ports[2]):
        a.send(roster.members[1].id, parcel(1))
        assert until(lambda: outgoing(a).reconnects.get("wrong_peer"))
        assert outgoing(a).tally.pending == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"run_id": "run-2"}, "wrong_run"),
        ({"spec_hash": "spec-2"}, "wrong_spec"),
        ({"channels": {0: float_channel("float64", [11])}}, "wrong_spec"),
    ],
)
def test_another_run_or_model_is_refused(changes, reason, tmp_path, ports):
    roster = federation(2, [(0, 1)], ports)
    other = replace(RUN, **changes)
    with (
        endpoint(0, roster, tmp_path, ports[0], other) as a,
        endpoint(1, roster, tmp_path, ports[1]) as b,
    ):
        assert refused(b, reason)
        assert until(lambda: a.refusals().get(f"by_peer_{reason}"))
        assert not outgoing(a).up


def test_a_forked_roster_is_refused_loudly(tmp_path, ports):
    one, other = federation(2, [(0, 1)], ports), federation(2, [(0, 1)], ports, spec="other")
    events = []
    with (
        endpoint(0, one, tmp_path, ports[0]),
        endpoint(1, other, tmp_path, ports[1], on_event=events.append) as b,
    ):
        assert refused(b, "roster_fork")
    assert any(event.kind == "alarm" and "roster_fork" in event.text for event in events)


def test_who_is_excluded_by_every_neighbour_stops_and_by_one_goes_on(tmp_path, ports):
    """One member that lies, or has a roster of its own, must not stop its neighbours."""
    pairs = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)]
    one, other = federation(3, pairs, ports), federation(3, pairs, ports, spec="other")
    with (
        endpoint(0, one, tmp_path, ports[0]) as a,
        endpoint(1, one, tmp_path, ports[1]) as b,
        endpoint(2, other, tmp_path, ports[2]) as c,
    ):
        with pytest.raises(ExcludedError, match="roster_fork"):
            c.take(a.me, 1, 0, 20.0)
        assert until(lambda: "by_peer_roster_fork" in a.refusals() | b.refusals())
        assert a.settle([a.send(b.me, parcel(1))], 5.0)
        assert numbers(b.take(a.me, 1, 0, 5.0))[0] == 1


def test_a_greeting_is_refused_while_the_endpoint_closes(tmp_path, ports, monkeypatch):
    """Otherwise heartbeats would keep the link, and a wait for its end, alive for ever."""
    objection = Greetings._objection

    def late(self, peer, hello):
        self.open = False
        return objection(self, peer, hello)

    monkeypatch.setattr(Greetings, "_objection", late)
    roster = federation(2, [(0, 1)], ports)
    with endpoint(1, roster, tmp_path, ports[1]) as b, endpoint(0, roster, tmp_path, ports[0]) as a:
        assert until(lambda: "closed" in outgoing(a).reconnects), outgoing(a).reconnects
        assert not incoming(b).up


# -- hostile members: right key, wrong bytes

FIRST = {  # the header of a first parcel
    "channel": 0, "round": 1, "mix_index": 0, "mode": "ordered", "ask": True, "length": 80,
    "epoch": 0, "incarnation": 5, "seq": 1,
}  # fmt: skip


SIDE = {
    "process_nonce": 5, "attempt": 1, "last": [0, 0], "want": 0, "room": 16, "parents": [],
    "part": [0, 0, 0],
}  # fmt: skip
ATTEMPTS = itertools.count(1)  # of all connections: a process never counts back


class Member:
    """Speaks the protocol by hand, with a true key."""

    def __init__(self, number, roster, port, **changes):
        self.raw = socket.create_connection(("127.0.0.1", port), timeout=3)
        self.sock = client_context(identity(number), roster).wrap_socket(
            self.raw, server_hostname="peer"
        )
        self.frames = FrameSocket(self.sock)
        hello = {"versions": [VERSION, VERSION], "run": RUN.run_id, "agreement": RUN.agreement}
        hello |= {"incarnation": 5, **SIDE, "attempt": next(ATTEMPTS)}
        self.frames.send(
            Kind.HELLO,
            {**hello, "roster": roster.hash, "roster_version": roster.version, **changes},
        )
        try:
            self.answer(Kind.HELLO_OK)
        except FrameError:
            self.close()
            raise
        self.seq = 0

    def answer(self, *kinds):
        """The next frame of one of these kinds; heartbeats before it are not answered."""
        while (frame := self.frames.read(*kinds, Kind.PING)).kind not in kinds:
            pass
        return frame

    def say(self, body, **changes):
        self.seq += 1
        header = {**FIRST, "round": self.seq, "seq": self.seq, "length": len(body), **changes}
        self.frames.send(Kind.DATA, header, body)

    def data(self, body, **changes):
        self.say(body, **changes)
        return self.answer(Kind.ACK, Kind.REFUSE)

    def close(self):
        self.sock.close()


@pytest.fixture
def hostile(tmp_path, ports):
    roster = federation(2, [(0, 1)], ports)
    run = replace(RUN, channels={**RUN.channels, 0: float_channel("float64", [10], 1e6)})
    with endpoint(1, roster, tmp_path, ports[1], run) as b:
        member = Member(0, roster, ports[1])
        yield member, b
        member.close()


GOOD = np.ones(10).tobytes()


def test_another_version_of_the_protocol_is_refused_not_guessed(tmp_path, ports):
    roster = federation(2, [(0, 1)], ports)
    with endpoint(1, roster, tmp_path, ports[1]) as b:
        with pytest.raises(FrameError, match="REFUSE"):
            Member(0, roster, ports[1], versions=[VERSION + 1, VERSION + 2])
        assert refused(b, "protocol_version")
        Member(0, roster, ports[1], versions=[VERSION, VERSION + 2]).close()


def test_a_later_version_is_told_so_whichever_side_dials(tmp_path, ports, monkeypatch):
    """A later version may change the frame format: both sides must still learn the reason."""
    roster, events = federation(2, [(0, 1), (1, 0)], ports), []
    with (
        endpoint(1, roster, tmp_path, ports[1], on_event=events.append) as b,
        socket.create_connection(("127.0.0.1", ports[1]), timeout=3) as raw,
        client_context(identity(0), roster).wrap_socket(raw, server_hostname="peer") as sock,
    ):
        hello = bytearray(encode(Kind.PING, {"stamp": 1}))
        hello[4] = VERSION + 1
        sock.sendall(hello)
        assert FrameSocket(sock).read(Kind.REFUSE).header["why"] == "protocol_version"
        assert refused(b, "protocol_version")

    def from_a_later_version(self):
        if threading.current_thread().name.startswith("to-peer"):
            read_prefix(b"PLM1" + bytes([VERSION + 1]) + bytes(23))
        return read(self)

    read = Parser.next
    monkeypatch.setattr(Parser, "next", from_a_later_version)
    with (
        endpoint(0, roster, tmp_path, ports[0], on_event=events.append) as a,
        endpoint(1, roster, tmp_path, ports[1]),
    ):
        assert refused(a, "protocol_version")
    assert sum("versions of Peerloom" in event.text for event in events) == 2


def test_an_expired_certificate_is_refused_as_such(tmp_path, ports):
    key = serialization.load_pem_private_key(identity(0).key_file.read_bytes(), password=None)
    old = self_signed(key, datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=4000))
    (tmp_path / "identity.key").touch(0o600)
    (tmp_path / "identity.key").write_bytes(identity(0).key_file.read_bytes())
    (tmp_path / "identity.crt").write_bytes(old)
    expired, roster = Identity.load(tmp_path), federation(2, [(0, 1)], ports)
    members = (replace(roster.members[0], certificate=old.decode()), roster.members[1])
    roster = replace(roster, members=members).signed(identity(0))
    with (
        Endpoint(expired, roster, RUN, tmp_path / "state", ("127.0.0.1", ports[0]), QUICK) as a,
        endpoint(1, roster, tmp_path, ports[1]) as b,
    ):
        assert refused(b, "expired_certificate")
        assert until(lambda: outgoing(a).reconnects.get("expired_certificate")), "and it learns why"


def test_a_member_without_a_link_is_refused(tmp_path, ports):
    roster = federation(3, [(1, 2)], ports)
    with endpoint(1, roster, tmp_path, ports[1]) as b:
        with pytest.raises(FrameError, match="REFUSE"):
            Member(0, roster, ports[1])
        assert refused(b, "not_a_neighbour")


@pytest.mark.parametrize(
    ("body", "changes", "reason"),
    [
        (np.array([1.0] * 9 + [np.nan]).tobytes(), {}, "not_finite"),
        (np.array([1.0] * 9 + [np.inf]).tobytes(), {}, "not_finite"),
        (np.full(10, 1e6).tobytes(), {}, "norm"),
        (np.ones(11).tobytes(), {}, "wrong_shape"),
        (b"", {}, "wrong_shape"),
        (GOOD[:-1], {}, "wrong_shape"),
        (GOOD, {"channel": 7}, "wrong_shape"),
        (GOOD, {"epoch": 1}, "epoch_ahead"),
    ],
)
def test_bad_parcels_are_refused_and_good_ones_still_come(body, changes, reason, hostile):
    member, b = hostile
    answer = member.data(body, **changes)
    assert (answer.kind, answer.header["why"]) == (Kind.REFUSE, reason)
    assert b.refusals()[reason] == 1
    assert incoming(b).frames[f"refused_{reason}"] == 1
    assert b.newest(identity(0).id, 0) is None
    assert member.data(GOOD).header["result"] == "applied"


def test_a_bad_parcel_that_does_not_ask_ends_the_connection(hostile):
    """What follows would overtake it: its sender is to come again, and ask."""
    member, b = hostile
    member.say(GOOD)
    member.answer(Kind.ACK)
    member.say(np.full(10, np.nan).tobytes(), ask=False)
    member.say(GOOD, ask=False)
    assert until(lambda: not incoming(b).up)
    assert incoming(b).frames == {"applied": 1}, "it is counted when it comes again"


def test_duplicates_are_applied_once(hostile):
    member, b = hostile
    assert member.data(GOOD).header["result"] == "applied"
    assert member.data(GOOD, seq=1).header["result"] == "duplicate"
    assert incoming(b).frames == {"applied": 1, "duplicate": 1}


@pytest.mark.parametrize(
    ("length", "claimed"), [(2**62, 2**62), (2**62, 1 << 18), (80_001, 80_001)]
)
def test_a_length_that_cannot_be_is_not_allocated(length, claimed, hostile):
    member, b = hostile
    lie, _ = begin(Kind.DATA, {**FIRST, "length": length}, claimed)
    member.sock.sendall(lie)
    assert refused(b, "oversized")
    assert until(lambda: not incoming(b).up)


@pytest.mark.parametrize("kind", [Kind.HELLO_OK, Kind.ACK, Kind.PONG, Kind.MORE])
def test_frames_out_of_turn_end_the_connection(kind, hostile):
    member, b = hostile
    member.frames.send(kind, SAMPLES[kind])
    assert refused(b, "out_of_turn")


def test_slow_handshakes_are_ended_and_floods_refused(tmp_path, ports):
    roster = federation(2, [(0, 1)], ports)
    settings = replace(QUICK, handshakes=4, handshakes_per_address=4, handshake=0.6)
    with endpoint(1, roster, tmp_path, ports[1], settings=settings) as b:
        idle = [socket.create_connection(("127.0.0.1", ports[1])) for _ in range(12)]
        assert until(lambda: b.refusals().get("handshake_flood", 0) >= 4)
        assert until(lambda: b.refusals().get("handshake_timeout", 0) >= 4)
        with endpoint(0, roster, tmp_path, ports[0]) as a:
            a.send(b.me, parcel(1))
            assert b.take(a.me, 1, 0, 5.0).round == 1, "who belongs here still gets in"
        for sock in idle:
            sock.close()


def test_a_flood_of_strangers_does_not_keep_members_out(tmp_path, ports):
    """With all places for strangers taken, a dialler from a member's address gets in at once."""
    roster = federation(2, [(0, 1)], ports)
    with endpoint(
        1, roster, tmp_path, ports[1], settings=replace(QUICK, handshakes=4, handshake=30.0)
    ) as b:
        idle = [
            socket.create_connection(("127.0.0.1", ports[1]), 3, (f"127.0.1.{k}", 0))
            for k in range(1, 9)
        ]
        assert until(lambda: b.refusals().get("handshake_flood", 0) == 4)
        with endpoint(0, roster, tmp_path, ports[0]) as a:
            assert until(lambda: outgoing(a).up, 2.0)
        for sock in idle:
            sock.close()


def test_a_greeting_that_drips_is_ended(tmp_path, ports):
    """Bytes in time, the whole too slow: a member, too, has a limit from dialling to HELLO."""
    roster = federation(2, [(0, 1)], ports)
    with endpoint(1, roster, tmp_path, ports[1], settings=replace(QUICK, handshake=0.6)) as b:
        begin = time.monotonic()
        with socket.create_connection(("127.0.0.1", ports[1])) as raw:
            slow = client_context(identity(0), roster).wrap_socket(raw, server_hostname="peer")
            for byte in encode(Kind.PING, {"stamp": 1})[:27]:
                try:
                    slow.sendall(bytes([byte]))
                except OSError:
                    break
                time.sleep(0.1)
            slow.close()
        assert b.refusals() == {"handshake_timeout": 1}
        assert time.monotonic() - begin < 2.0


def test_an_older_life_of_a_peer_is_refused(tmp_path, ports):
    roster = federation(2, [(0, 1)], ports)
    events = []
    with endpoint(1, roster, tmp_path, ports[1], on_event=events.append) as b:
        member = Member(0, roster, ports[1])
        member.data(GOOD)
        with endpoint(
            0, roster, tmp_path, ports[0]
        ) as a:  # its incarnation is 1, the member above claimed 5
            assert refused(b, "old_incarnation")
            assert until(lambda: a.refusals().get("by_peer_old_incarnation"))
        member.close()
    assert any(event.kind == "alarm" for event in events)


def test_a_copy_of_a_peer_with_the_same_incarnation_is_refused(tmp_path, ports):
    """A folder that was copied or made anew would repeat numbers, and its parcels be dropped."""
    roster = federation(2, [(0, 1)], ports)
    events = []
    with endpoint(1, roster, tmp_path, ports[1], on_event=events.append) as b:
        with endpoint(0, roster, tmp_path, ports[0]) as a:
            a.settle([a.send(b.me, parcel(1))], 5.0)
            with endpoint(0, roster, tmp_path / "copy", ports[2]) as copy:
                assert (copy.incarnation, a.incarnation) == (1, 1)
                lost = copy.send(b.me, parcel(1, value=7))
                assert until(lambda: copy.refusals().get("by_peer_identity_conflict"))
                assert lost.outcome == "pending", "not acknowledged as a duplicate"
                with pytest.raises(ExcludedError, match="identity_conflict") as refusal:
                    copy.settle([lost], 5.0)
                assert refusal.value.exit_code == 6
            assert outgoing(a).up, "the first is not disturbed"
            assert a.settle([a.send(b.me, parcel(2))], 5.0)
        assert [numbers(b.take(roster.members[0].id, round, 0, 1.0))[0] for round in (1, 2)] == [
            1,
            2,
        ]
        with endpoint(0, roster, tmp_path, ports[0]) as again:
            assert again.settle([again.send(b.me, parcel(3))], 5.0), (
                "started again it has a higher incarnation"
            )
    assert any(event.kind == "alarm" and "identity_conflict" in event.text for event in events)


# -- rosters while links are open


def test_a_new_roster_spreads_and_a_removed_member_is_cut_off_at_once(tmp_path, ports, quick):
    roster = federation(3, [(0, 1), (2, 1), (1, 0)], ports)
    ids = [member.id for member in roster.members]
    with (
        endpoint(0, roster, tmp_path, ports[0], settings=quick) as a,
        endpoint(1, roster, tmp_path, ports[1], settings=quick) as b,
        endpoint(2, roster, tmp_path, ports[2], settings=quick) as c,
    ):
        c.send(ids[1], parcel(1))
        assert b.take(ids[2], 1, 0, 5.0).round == 1
        without = roster.without_member(identity(0), "peer-2")
        assert until(lambda: outgoing(a).up)
        ahead = a.send(ids[1], parcel(2))
        a.consider(without)
        assert until(lambda: b.roster.version == 2), "open links bring it"
        assert b.closed("in", ids[2])
        assert until(lambda: not c.links()), "it was shown the roster, signed"
        with pytest.raises(PeerError, match="founder removed this peer"):
            c.send(ids[1], parcel(2))
        assert a.settle([ahead, a.send(ids[1], parcel(3))], 5.0)
        assert [b.take(ids[0], round, 0, 5.0).epoch for round in (2, 3)] == [0, 0]


def test_peers_bring_each_other_the_newer_roster(tmp_path, ports):
    roster = federation(2, [(0, 1)], ports)
    newer = roster.amended(identity(0), run="agreed")
    epoch = newer.amended(identity(0), new_epoch=True)
    with endpoint(1, roster, tmp_path, ports[1]) as b:
        with endpoint(0, newer, tmp_path, ports[0]):
            assert until(lambda: b.roster.version == 2), "same epoch: adopted at once"
        file = tmp_path / "state-1" / "roster.json"  # written after it is in use
        assert until(lambda: Roster.from_bytes(file.read_bytes(), roster.founder).version == 2)
        with endpoint(0, epoch, tmp_path, ports[0]) as a:
            assert until(lambda: b.offered() is not None)
            assert b.roster.version == 2
            a.adopt(a.offered())
            waiting = a.send(b.me, parcel(1))
            assert not a.settle([waiting], 0.3), "held until the other side has adopted the epoch"
            b.adopt(b.offered())
            assert a.settle([waiting], 5.0)
            assert waiting.outcome == "acked"
    with endpoint(1, roster, tmp_path, ports[1]) as b:
        assert b.roster.version == 3, "a restart does not go back to an older roster"
    assert (
        Roster.from_bytes(
            (tmp_path / "state-1" / "roster.json").read_bytes(), roster.founder
        ).version
        == 3
    )


def test_one_process_per_state_folder(tmp_path, ports):
    roster = federation(2, [(0, 1)], ports)
    first = endpoint(0, roster, tmp_path, ports[0])
    with pytest.raises(PeerError, match="in use by another process"):
        endpoint(0, roster, tmp_path, ports[2])
    first.close()
    again = endpoint(0, roster, tmp_path, ports[0])
    assert (first.incarnation, again.incarnation) == (1, 2)
    again.close()


def test_an_endpoint_that_cannot_begin_leaves_no_socket(tmp_path, ports):
    """Its driver holds sockets before the roster is judged."""
    one, other = federation(2, [(0, 1)], ports), federation(2, [(0, 1)], ports, spec="other")
    endpoint(0, one, tmp_path, ports[0]).close()
    later = other.with_links(identity(0), other.links)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(ExcludedError, match="Two different rosters"):
        endpoint(0, later, tmp_path, ports[0])
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_nothing_unpickles(pair):
    """An audit hook sees every class that pickle looks up, and every exec or compile."""
    found = []
    sys.addaudithook(
        lambda event, args: found.append(event) if event.startswith("pickle.") else None
    )
    a, b = pair
    for round in range(1, 4):
        a.send(b.me, parcel(round))
        assert b.take(a.me, round, 0, 5.0).round == round
    assert found == []
    pickle.loads(pickle.dumps(struct.Struct))
    assert found, "the hook sees what it should"
    found.clear()
