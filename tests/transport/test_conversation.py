"""The protocol over bytes that are cut, delayed and lost: once, in order, bounded."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom.transport import Channel, Parcel, RunIdentity, Settings
from peerloom.transport.conversation import Conversation
from peerloom.transport.frames import FrameError, decode, encode
from peerloom.transport.links import LinkTable
from peerloom.transport.receiver import Receiver
from peerloom.transport.schemas import SEGMENT, VERSION, Kind
from tests.doubles.memory import Faults, MemoryNetwork
from tests.federation import RUN, federation, identity, parcel

PAIR = federation(2, [(0, 1), (1, 0)])
A, B = (member.id for member in PAIR.members)
ANY = RunIdentity("any", "spec", {0: Channel(4 * SEGMENT, None, "anything")})
SIZES = (0, 1, 80, 70_000, SEGMENT, SEGMENT + 1, 3 * SEGMENT - 5)
delays = st.tuples(st.just(0.0), st.floats(0.0, 0.2))


def body(seed, *place):
    draws = np.random.default_rng([seed, *place])
    found = draws.integers(0, 256, draws.choice(SIZES), np.uint8)
    found.flags.writeable = False
    return found


@settings(max_examples=15)
@given(
    st.integers(0, 2**32),
    st.integers(1, 6),
    st.floats(0.0, 0.02),
    st.sampled_from([(1 << 30,), (999, 20_000, 1 << 30)]),
)
def test_bodies_of_any_length_arrive_once_and_in_order_both_ways_at_once(
    seed, rounds, breaks, pieces
):
    faults = Faults(breaks, (0.0, 0.05), pieces)
    network = MemoryNetwork(PAIR, ANY, seed, faults)
    with network.endpoint(A) as a, network.endpoint(B) as b:
        for round in range(1, rounds + 1):
            a.send(B, Parcel(0, round, 0, body(seed, 0, round)))
            b.send(A, Parcel(0, round, 0, body(seed, 1, round)))
        for round in range(1, rounds + 1):
            assert np.array_equal(b.take(A, round, 0, 1000.0).body, body(seed, 0, round))
            assert np.array_equal(a.take(B, round, 0, 1000.0).body, body(seed, 1, round))
        for end in (a, b):
            assert end.settle(None, 1000.0)
            out = next(link for link in end.links() if link.direction == "out")
            assert (out.tally.acked, out.tally.balanced) == (rounds, True)
            assert out.frames["acked"] == out.frames["sent"] == rounds, (
                "also what a new connection showed to have arrived"
            )
            assert not end.refusals()


@given(st.integers(0, 2**32), delays)
def test_when_both_dial_at_once_one_connection_stays_and_none_is_replaced(seed, delay):
    network = MemoryNetwork(PAIR, RUN, seed, Faults(delay=delay))
    with network.endpoint(A) as a, network.endpoint(B) as b:
        a.send(B, parcel(1))
        assert b.take(A, 1, 0, 100.0).round == 1
        network.pass_time(5.0)
        talks = [network.drivers[peer].table.greetings.all() for peer in (A, B)]
        assert [len(each) for each in talks] == [1, 1]
        assert (
            len(
                [
                    line
                    for line in network.drivers[A].lines
                    if talks[0][0] in line.talks and talks[1][0] in line.talks
                ]
            )
            == 1
        )
        assert network.drivers[A].lines == network.drivers[B].lines, "nothing else is open"
        for end in (a, b):
            assert all(link.up and not link.reconnects for link in end.links())
            assert not end.refusals()


@given(st.integers(0, 2**32), delays, st.floats(0.0, 0.2))
def test_whatever_breaks_while_both_dial_there_is_a_connection_in_the_end(seed, delay, breaks):
    network = MemoryNetwork(PAIR, RUN, seed, Faults(breaks, delay))
    with network.endpoint(A) as a, network.endpoint(B) as b:
        for end in (a, b):
            network.pass_time(0.3)
            network.crash(A) if end is a and seed % 3 == 0 else None
        network.faults = Faults(0.0, delay)
        if seed % 3 == 0:
            a = network.endpoint(A)
            a.start()
        network.pass_time(20.0)
        assert all(link.up for end in (a, b) for link in end.links())
        assert a.settle([a.send(B, parcel(1))], 100.0)
        assert b.settle([b.send(A, parcel(1))], 100.0)


@given(
    st.integers(0, 2**32),
    st.integers(1, 4),
    st.integers(1, 6),
    st.floats(0.0, 0.05),
    st.lists(st.integers(0, 12), min_size=1, max_size=12),
)
def test_room_is_kept_to_and_always_granted_again(seed, inbox, window, breaks, story):
    """The sender sends in bursts, the receiver takes at will: never too much, never stuck."""
    chosen = Settings(inbox=inbox, window=window, outbox=1000)
    network = MemoryNetwork(PAIR, RUN, seed, Faults(breaks, (0.0, 0.02)), chosen)
    with network.endpoint(A) as a, network.endpoint(B) as b:
        sent = taken = 0
        for count in story:
            for _ in range(count):
                sent += 1
                a.send(B, parcel(sent))
            network.pass_time(0.3)
            assert len(network.drivers[B].table.inboxes[A]) <= inbox
            for _ in range(min(count // 2, sent - taken)):
                taken += 1
                assert b.take(A, taken, 0, 1000.0).round == taken
                assert len(network.drivers[B].table.inboxes[A]) <= inbox
        while taken < sent:
            taken += 1
            assert b.take(A, taken, 0, 1000.0).round == taken
        assert a.settle(None, 1000.0)
        assert not b.refusals()


@pytest.mark.parametrize("forgets", [False, True], ids=["as it is", "a planted fault"])
def test_room_is_granted_at_once_and_not_by_the_next_heartbeat(forgets, monkeypatch):
    if forgets:
        monkeypatch.setattr(Receiver, "blocks_sender", lambda self: False)
    network = MemoryNetwork(PAIR, RUN, 1, settings=Settings(inbox=1, heartbeat=500.0, dead=2000.0))
    with network.endpoint(A) as a, network.endpoint(B) as b:
        for round in range(1, 6):
            a.send(B, parcel(round))
        network.pass_time(1.0)
        came = [b.take(A, round, 0, 1.0) for round in range(1, 6)]
        assert all(came) is not forgets


# -- one side of it


def table(me, other, run=ANY):
    return LinkTable(me, PAIR, run, 1, Settings(), lambda: 0.0)


def opened(run=ANY):
    """A conversation that was dialled and greeted, and what the other side would say."""
    talk = Conversation(table(B, A, run), A, dialled=False, now=0.0)
    side = {
        "incarnation": 1,
        "process_nonce": 9,
        "attempt": 1,
        "last": [0, 0],
        "want": 0,
        "room": 16,
        "parents": [],
        "part": [0, 0, 0],
    }
    hello = {
        "versions": [VERSION, VERSION],
        "run": run.run_id,
        "agreement": run.agreement,
        "roster": PAIR.hash,
        "roster_version": 1,
    }
    say(talk, encode(Kind.HELLO, {**hello, **side}))
    (_, _), (_, ping) = found = said(talk)
    assert [kind for kind, _ in found] == [Kind.HELLO_OK, Kind.PING]
    say(talk, encode(Kind.PONG, {**ping, "room": 16}))
    return talk


def say(talk, data, now=0.0):
    left = memoryview(data)
    while left:
        into = talk.buffer()
        here = min(len(into), len(left))
        into[:here] = left[:here]
        left = left[here:]
        talk.received(here, now)


def said(talk, now=0.0, most=10**9):
    """The frames that it has to say; none begins after so many bytes."""
    data = b""
    while (len(data) < most or talk._pieces) and (piece := talk.outgoing(now)):
        data += bytes(piece)
        talk.sent(len(piece))
    found = []
    while data:
        head = int.from_bytes(data[8:12], "big"), int.from_bytes(data[12:20], "big")
        end = 28 + sum(head) + (8 if head[1] else 0)
        kind, header, _ = decode(data[:end])
        found.append((kind, header))
        data = data[end:]
    return found


DATA = {  # the header of a first parcel, but for its length
    "channel": 0, "round": 1, "mix_index": 0, "mode": "ordered", "ask": True,
    "epoch": 0, "incarnation": 1, "seq": 1,
}  # fmt: skip


def test_answers_and_rosters_pass_between_the_segments_of_a_body():
    talk = opened()
    talk._table.outboxes[A].put(Parcel(0, 1, 0, np.zeros(3 * SEGMENT, np.uint8)), "ordered", 0, 0.0)
    kinds = [kind for kind, _ in said(talk, most=1000)]
    say(talk, encode(Kind.DATA, {**DATA, "length": 3}, b"abc"))
    talk._table.consider(PAIR.amended(identity(0), run="newer"))
    kinds += [kind for kind, _ in said(talk)]
    assert kinds == [Kind.DATA, Kind.ACK, Kind.ROSTER, Kind.MORE, Kind.MORE]


SIDE = {
    "incarnation": 1,
    "process_nonce": 1,
    "attempt": 1,
    "last": [0, 0],
    "want": 0,
    "room": 1,
    "parents": [],
    "part": [0, 0, 0],
}


@pytest.mark.parametrize(
    "frames",
    [
        [(Kind.MORE, {"seq": 1, "at": 0}, b"abc")],
        [(Kind.DATA, {**DATA, "length": SEGMENT + 9}, bytes(9))],
        [
            (Kind.DATA, {**DATA, "length": SEGMENT + 9}, bytes(SEGMENT)),
            (Kind.MORE, {"seq": 1, "at": 7}, bytes(9)),
        ],
        [
            (Kind.DATA, {**DATA, "length": SEGMENT + 9}, bytes(SEGMENT)),
            (Kind.MORE, {"seq": 2, "at": SEGMENT}, bytes(9)),
        ],
        [
            (Kind.DATA, {**DATA, "length": SEGMENT + 9}, bytes(SEGMENT)),
            (Kind.MORE, {"seq": 1, "at": SEGMENT}, bytes(8)),
        ],
        [
            (Kind.DATA, {**DATA, "length": SEGMENT + 9}, bytes(SEGMENT)),
            (Kind.DATA, {**DATA, "length": 3, "seq": 2}, b"abc"),
        ],
        [
            (Kind.DATA, {**DATA, "length": SEGMENT + 9}, bytes(SEGMENT)),
            (Kind.DATA, {**DATA, "length": 0, "seq": 2}, b""),
        ],
        [(Kind.DATA, {**DATA, "length": 5}, b"")],
        [(Kind.DATA, {**DATA, "incarnation": 2, "length": 3}, b"abc")],
        [(Kind.ACK, {"seq": 1, "result": "applied", "room": 1}, b"")],
        [(Kind.REFUSE, {"seq": 1, "why": "norm", "room": 1}, b"")],
        [(Kind.PONG, {"stamp": 1, "room": 1}, b"")],
        [(Kind.HELLO_OK, {"version": 7, "roster_version": 1, **SIDE}, b"")],
    ],
    ids=lambda frames: "-".join(kind.name for kind, _, _ in frames),
)
def test_what_is_said_out_of_turn_ends_the_connection(frames):
    talk = opened()
    *before, last = [encode(*frame) for frame in frames]
    for frame in before:
        say(talk, frame)
    with pytest.raises(FrameError, match="out_of_turn"):
        say(talk, last)
    assert not len(talk._table.inboxes[A]), "and nothing of it was taken"


def test_more_than_there_is_room_for_ends_the_connection():
    talk = opened()
    for seq in range(1, 17):
        say(
            talk,
            encode(Kind.DATA, {**DATA, "round": seq, "seq": seq, "ask": False, "length": 1}, b"x"),
        )
    with pytest.raises(FrameError, match="no_room"):
        say(talk, encode(Kind.DATA, {**DATA, "round": 17, "seq": 17, "length": 1}, b"x"))
    assert len(talk._table.inboxes[A]) == 16


def test_silence_ends_a_connection_and_heartbeats_are_due_in_time():
    talk = opened()
    due = talk.deadline()
    assert due == pytest.approx(1.0)
    talk.tick(due)
    assert [kind for kind, _ in said(talk, due)] == [Kind.PING]
    with pytest.raises(TimeoutError):
        talk.tick(10.0)
    say(talk, encode(Kind.PING, {"stamp": 3}), now=9.0)
    talk.tick(10.0)
    assert Kind.PONG in [kind for kind, _ in said(talk, 10.0)]


def test_an_answer_never_speaks_for_a_parcel_that_was_sent_again():
    """A parcel refused for its epoch is sent again with its number; an old answer is not its."""
    talk = opened()
    box = talk._table.outboxes[A]
    receipt = box.put(Parcel(0, 1, 0, np.zeros(1, np.uint8)), "ordered", 0, 0.0)
    said(talk, 0.0)
    said(talk, 2.0)  # a PING, whose answer is still under way
    say(talk, encode(Kind.REFUSE, {"seq": 1, "why": "epoch_ahead", "room": 16}), now=2.0)
    assert [kind for kind, _ in said(talk, 4.0)][:1] == [Kind.DATA], "sent again"
    say(talk, encode(Kind.PONG, {"stamp": int(2.0 * 1e9), "room": 16}), now=4.0)
    assert receipt.outcome == "pending"
    say(talk, encode(Kind.ACK, {"seq": 1, "result": "applied", "room": 16}), now=4.0)
    assert receipt.outcome == "acked"


@pytest.mark.parametrize("middle", [False, True], ids=["between bodies", "within a body"])
def test_a_goodbye_asks_what_has_arrived_and_speaks_for_nothing_else(middle):
    talk = opened()
    box = talk._table.outboxes[A]
    first = box.put(Parcel(0, 1, 0, np.zeros(1, np.uint8)), "ordered", 0, 0.0)
    said(talk)
    say(talk, encode(Kind.ACK, {"seq": 1, "result": "applied", "room": 16}))
    second = box.put(
        Parcel(0, 2, 0, np.zeros(1 if not middle else 3 * SEGMENT, np.uint8)), "ordered", 0, 0.0
    )
    said(talk, most=1000 if middle else 10**9)
    talk.leave("stopped")
    *_, (last, _) = found = said(talk, 0.5)
    assert last is Kind.BYE
    assert Kind.PING in [kind for kind, _ in found]
    assert not talk.finished
    say(talk, encode(Kind.PONG, {"stamp": int(0.5 * 1e9), "room": 16}), now=0.5)
    assert talk.finished
    assert (first.outcome, second.outcome) == ("acked", "pending" if middle else "acked")


def test_a_newer_roster_is_shown_before_the_goodbye():
    talk = opened(replace(ANY))
    talk._table.consider(PAIR.amended(identity(0), run="newer"))
    talk.leave("removed")
    assert [kind for kind, _ in said(talk)] == [Kind.ROSTER, Kind.BYE]


ASKED = [
    encode(Kind.PING, {"stamp": 1}),
    encode(Kind.DATA, {**DATA, "seq": 3, "round": 3, "length": 1}, b"y"),
    encode(Kind.DATA, {**DATA, "seq": 3, "round": 3, "channel": 9, "length": 1}, b"y"),
    encode(Kind.SKIP, {"round": 3, "epoch": 0, "incarnation": 1, "seq": 3}),
]


@pytest.mark.parametrize("back", [False, True], ids=["gone", "gone and back in a new epoch"])
@pytest.mark.parametrize("asked", ASKED, ids=["ping", "parcel", "misshapen", "skip"])
def test_no_answer_speaks_for_a_parcel_without_a_link(asked, back):
    """A newer roster took the link away while a parcel was under way that asks for no answer."""
    talk = opened()
    say(talk, encode(Kind.DATA, {**DATA, "length": 1}, b"x"))
    assert [kind for kind, _ in said(talk)] == [Kind.ACK]
    newer = PAIR.without_links(identity(0), [(A, B)])
    talk._table.consider(newer)
    talk.leave("rewired")
    say(talk, encode(Kind.DATA, {**DATA, "seq": 2, "ask": False, "length": 1}, b"x"))
    if back:
        talk._table.adopt(newer.with_links(identity(0), PAIR.links))
    say(talk, asked)
    assert [kind for kind, _ in said(talk)] == [Kind.ROSTER, Kind.BYE], "what says that it is gone"
    assert talk.finished


def test_a_copy_is_known_as_such_also_if_a_ping_left_while_it_was_judged():
    """The PING of that moment says nothing of the time after, and a busy link sends no other."""
    network = MemoryNetwork(PAIR, RUN, 0, Faults())
    with network.endpoint(A) as a, network.endpoint(B) as b:
        a.send(B, parcel(1))
        assert b.take(A, 1, 0, 100.0).round == 1
        table = network.drivers[B].table
        current, life = table.greetings.current(A), table.lives.known(A).life
        copy = {"incarnation": life.incarnation + 1, "process_nonce": 7, "parents": [list(life)]}
        late = SimpleNamespace(peer=A, version=VERSION, attempt=0)
        with table.lock:
            assert table.greetings._impostor(late, copy) == "second_process"
            current._gather(table.clock() - 1e-3)
        network.pass_time(0.1)
        with table.lock:
            assert table.greetings._impostor(late, copy) == "second_process"
        network.pass_time(0.1)
        with table.lock:
            assert table.greetings._impostor(late, copy) == "identity_conflict"
