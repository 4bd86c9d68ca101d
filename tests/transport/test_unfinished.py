"""Strangers who hold every place, and take each again that is freed: they keep nobody out."""

import contextlib
import select
import socket
import threading
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import ends
from peerloom.transport import Endpoint
from peerloom.transport.relay.limits import Limits
from peerloom.transport.unfinished import Unfinished, network_of
from tests.federation import QUICK, RUN, identity, until
from tests.relays import RelayThread, roster_with, without_port

BOTH = [(0, 1), (1, 0)]


@contextlib.contextmanager
def idle(where, sources, each, most=5000):
    """Hold so many silent connections from each address; one that is cut is opened again."""
    stop, made = threading.Event(), [0]

    def hold():
        poll, held = select.poll(), {}

        def open_one(source):
            sock = socket.socket()
            sock.bind((source, 0))
            sock.settimeout(2.0)
            with contextlib.suppress(OSError):
                sock.connect(where)
            made[0] += 1
            held[sock.fileno()] = (sock, source)
            poll.register(sock, select.POLLIN | select.POLLHUP)

        for source in sources:
            for _ in range(each):
                open_one(source)
        while not stop.is_set():
            for fileno, _ in poll.poll(50):
                poll.unregister(fileno)
                sock, source = held.pop(fileno)
                sock.close()
                if made[0] < most:
                    open_one(source)
        for sock, _ in held.values():
            sock.close()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield made
    finally:
        stop.set()
        thread.join()


def test_strangers_do_not_keep_out_a_member_that_only_dials(tmp_path):
    """Its address stands in no roster: it has the room of a stranger."""
    with socket.create_server(("127.0.0.99", 0)) as free:
        where = free.getsockname()
    roster = ends.federation(2, BOTH, [f"127.0.0.99:{where[1]}", ""])
    patient = replace(QUICK, handshake=60.0)
    with Endpoint(identity(0), roster, RUN, tmp_path / "a", where, patient) as a:
        before = threading.active_count()
        with idle(where, ["127.0.0.2", "127.0.0.3"], 20) as made:
            assert until(lambda: made[0] >= 40)
            assert until(lambda: a.refusals().get("handshake_flood", 0) >= 8)
            with Endpoint(identity(1), roster, RUN, tmp_path / "b", None, QUICK) as b:
                assert until(lambda: all(link.up for link in b.links()))
            assert threading.active_count() < before + 32 + 16
        assert set(a.refusals()) <= {"handshake_flood", "closed"}, "nobody else is refused"


def test_strangers_do_not_keep_members_from_a_relay(tmp_path):
    limits = Limits(handshake=60.0, unfinished=32, per_address=16)
    with RelayThread(limits=limits) as relay:
        roster = roster_with(2, BOTH, [relay.entry])
        with idle(("127.0.0.1", relay.port), ["127.0.0.2", "127.0.0.3"], 20) as made:
            assert until(lambda: made[0] >= 40)
            assert until(lambda: relay.server.refusals["handshake_flood"] >= 8)
            with without_port(0, roster, tmp_path) as a, without_port(1, roster, tmp_path) as b:
                assert until(lambda: all(link.up for link in (*a.links(), *b.links())))
            assert len(relay.server._acceptor.unfinished) <= 32
        assert set(relay.server.refusals) <= {"handshake_flood", "closed"}


# -- who makes room for whom


def test_who_comes_from_few_addresses_only_displaces_itself():
    room = Unfinished(4, 3, 100.0)
    for number in range(3):
        assert room.enter(f"a{number}", "192.0.2.1", number) is None
    assert room.enter("b", "192.0.2.2", 5) is None
    assert room.enter("c", "192.0.2.3", 6) == "a0"
    assert room.enter("a3", "192.0.2.1", 7) == "a3", "no more than the others, and nobody's turn"
    assert list(room) == ["a1", "a2", "b", "c"]
    assert [room.leave(each) for each in ("b", "a0")] == ["192.0.2.2", None]
    assert room.enter("a4", "192.0.2.1", 7) is None
    assert room.enter("a5", "192.0.2.1", 99) == "a5"
    assert room.enter("a5", "192.0.2.1", 101) == "a1"


def test_many_who_come_at_once_from_everywhere_have_their_turn():
    """As when a hub is back: a place that is taken again before it was of use would help nobody."""
    room = Unfinished(32, 16, 1.0)
    gone = [room.enter(number, f"192.0.2.{number}", 0.004 * number) for number in range(200)]
    assert gone == [None] * 32 + list(range(32, 200))
    assert room.enter(200, "198.51.100.1", 1.0) == 0, "whoever said nothing meanwhile"


def test_a_member_s_address_has_room_that_strangers_cannot_take():
    room = Unfinished(2, 2, 0.0, known=lambda address: address == "192.0.2.1")
    assert [room.enter(n, "192.0.2.1", 0) for n in range(2)] == [None, None]
    for number in range(2, 50):
        out = room.enter(number, f"198.51.100.{number}", 0)
        assert out is None if number < 4 else out >= 2
    assert room.enter(50, "192.0.2.1", 1) == 0
    assert len(room) == 4


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["come", "go"]), st.floats(0.0, 2.0)),
        max_size=80,
    )
)
def test_places_are_bounded_whoever_comes_and_goes(steps):
    room, now, known = Unfinished(4, 2, 1.0, lambda address: address == "a0"), 0.0, Counter()
    there = {}
    for number, (source, what, later) in enumerate(steps):
        now += later
        if what == "go" and there:
            first = next(iter(there))
            assert room.leave(first) == there.pop(first)
        elif what == "come":
            out = room.enter(number, f"a{source}", now)
            there[number] = f"a{source}"
            if out is not None:
                there.pop(out)
        known = Counter(there.values())
        assert set(room) == set(there)
        assert max(known.values(), default=0) <= 2
        assert sum(known.values()) - known["a0"] <= 4


@given(st.ip_addresses(v=6), st.integers(0, 2**64 - 1))
def test_a_network_of_ipv6_counts_as_one_address(address, other):
    near = type(address)(int(address) >> 64 << 64 | other)
    assert network_of(str(address)) == network_of(str(near))
    room = Unfinished(4, 1, 9.0)
    assert room.enter(1, str(address), 0) is None
    assert room.enter(2, str(near), 0) == 2


@pytest.mark.parametrize("address", ["192.0.2.1", "relay", "X" * 52])
def test_anything_else_is_its_own_network(address):
    assert network_of(address) == address
