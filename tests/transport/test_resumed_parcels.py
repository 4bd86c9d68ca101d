"""A parcel whose connection is lost goes on where it was, over the next one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom.transport import Channel, Parcel, RunIdentity, Settings
from peerloom.transport import receiver as receiving
from peerloom.transport import sender as sending
from peerloom.transport.conversation import Conversation
from peerloom.transport.frames import FrameError, encode
from peerloom.transport.links import LinkTable
from peerloom.transport.schemas import Kind
from tests.federation import federation, identity

PAIR = federation(2, [(0, 1), (1, 0)])
A, B = (member.id for member in PAIR.members)
PART = 64  # bytes of a segment here
LONG = 1 << 16
RUN = RunIdentity("any", "spec", {0: Channel(LONG, None, "anything")})
FRAME = 120  # bytes around a segment, and more


@pytest.fixture(autouse=True)
def _segments(monkeypatch):
    monkeypatch.setattr(sending, "SEGMENT", PART)
    monkeypatch.setattr(receiving, "SEGMENT", PART)


def table(me, life=1, versions=(6, 7), after=None):
    """A process of a peer, perhaps after another on the same folder."""
    found = LinkTable(me, PAIR, RUN, life, Settings(versions=versions), lambda: 0.0)
    if after is not None:
        found.lives = after.lives
    return found


def send(one, other, body, round=1):
    parcel = Parcel(0, round, 0, body).frozen()
    return one.outboxes[other].put(parcel, "ordered", 0, 0.0)


def body_of(seed, size):
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


class Line:
    """Two tables and one connection between them, over which bytes can be counted and cut."""

    def __init__(self, one, other, dials=0, version=7):
        self.tables, now = (one, other), 0.0
        self.talks = [
            Conversation(each, (other, one)[k].me, k == dials, now, version)
            for k, each in enumerate((one, other))
        ]
        self.sent = [0, 0]

    def pump(self, budget=1 << 60):
        """Carry bytes until nobody has any, or the first end has sent so many; whether it has."""
        moved = True
        while moved:
            moved = False
            for end in (0, 1):
                talk, other = self.talks[end], self.talks[1 - end]
                while piece := talk.outgoing(0.0):
                    room = budget - self.sent[0] if end == 0 else 1 << 60
                    data = bytes(piece[: min(len(piece), room)])
                    talk.sent(len(data))
                    self.sent[end] += len(data)
                    feed(other, data)
                    moved = True
                    if end == 0 and self.sent[0] >= budget:
                        return True
        return False

    def cut(self):
        """Both ends notice that the connection is lost."""
        for each, talk in zip(self.tables, self.talks, strict=True):
            each.ended(talk, "closed")


def feed(talk, data):
    left = memoryview(data)
    while left:
        into = talk.buffer()
        here = min(len(into), len(left))
        into[:here] = left[:here]
        left = left[here:]
        talk.received(here, 0.0)


def taken(table, peer, round=1):
    return table.inboxes[peer].look(round, 0)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(PART + 1, 40 * PART),
    cuts=st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 1)), max_size=6),
)
def test_cut_at_any_byte_only_the_segment_under_way_is_sent_again(seed, size, cuts):
    one, other, body = table(A), table(B), body_of(seed, size)
    receipt, sent = send(one, B, body), 0
    whole = Line(table(A), table(B))
    send(whole.tables[0], B, body)
    whole.pump()
    for budget, dials in cuts:
        line = Line(one, other, dials)
        line.pump(budget)
        sent += line.sent[0]
        line.cut()
    line = Line(one, other)
    assert not line.pump()
    assert receipt.outcome == "acked"
    assert np.array_equal(taken(other, A).body, body)
    # Every connection costs its greeting, and what was cut of the frame under way.
    greeting = Line(table(A), table(B))
    greeting.pump()
    most = whole.sent[0] + len(cuts) * (greeting.sent[0] + PART + FRAME)
    assert sent + line.sent[0] <= most


def test_a_cut_half_way_costs_no_tenth_of_the_row():
    one, other, body = table(A), table(B), body_of(1, LONG)
    send(one, B, body)
    line = Line(one, other)
    assert line.pump(LONG // 2)
    line.cut()
    again = Line(one, other)
    again.pump()
    assert np.array_equal(taken(other, A).body, body)
    frames = (LONG // PART) * FRAME
    assert line.sent[0] + again.sent[0] < 1.1 * LONG + frames
    assert again.sent[0] < 0.6 * (LONG + frames)


def test_peers_of_the_version_before_begin_anew():
    one, other, body = table(A), table(B, versions=(6, 6)), body_of(2, 20 * PART)
    send(one, B, body)
    line = Line(one, other, version=6)
    line.pump(1500)
    line.cut()
    assert other.edges["in", A].part.filled >= PART
    line = Line(one, other, version=6)
    line.pump()
    assert np.array_equal(taken(other, A).body, body)
    assert line.sent[0] > len(body)


@pytest.mark.parametrize("who", ["sender", "receiver"])
def test_a_new_process_begins_anew(who):
    one, other, body = table(A), table(B), body_of(3, 20 * PART)
    send(one, B, body)
    line = Line(one, other)
    line.pump(1500)
    line.cut()
    if who == "sender":
        one = table(A, life=2, after=one)
        body = body_of(4, 20 * PART)  # another row under the same number
        send(one, B, body)
    else:
        other = table(B, life=2, after=other)
    line = Line(one, other)
    line.pump()
    assert np.array_equal(taken(other, A).body, body)
    assert line.sent[0] > len(body)


def test_something_else_may_come_first_after_the_loss():
    """The sender withdrew nothing, but a newer roster may have refused the entry."""
    one, other = table(A), table(B)
    send(one, B, body_of(5, 20 * PART))
    line = Line(one, other)
    line.pump(1500)
    line.cut()
    one.outboxes[B].forget_all("no_link")
    body = body_of(6, 20 * PART)
    send(one, B, body, round=2)
    Line(one, other).pump()
    assert taken(other, A, 2) is not None
    assert np.array_equal(taken(other, A, 2).body, body)


def greet_with(part, one, other):
    """A conversation of `one` that `other` has greeted with this claim."""
    line = Line(one, other, dials=1)
    hello = other.greetings.hello(line.talks[1])
    feed(line.talks[0], encode(Kind.HELLO, {**hello, "room": 16, "part": part}))
    return line.talks[0]


@pytest.mark.parametrize(
    "part",
    [
        [1, 1, 0], [1, 1, 1], [1, 1, PART - 1], [1, 1, 20 * PART], [1, 1, 2**62], [1, 2, PART],
        [2, 1, PART], [0, 0, 0],
    ],
)  # fmt: skip
def test_a_receiver_that_claims_nonsense_gets_the_whole_row(part):
    one, other = table(A), table(B)
    send(one, B, body_of(7, 20 * PART))
    first = Line(one, other)
    first.pump(1500)
    first.cut()
    talk = greet_with(part, one, other)
    data = b""
    while len(data) < 1000 and (piece := talk.outgoing(0.0)):
        data += bytes(piece)
        talk.sent(len(piece))
    assert b"ordered" in data  # DATA: it begins anew


@pytest.mark.parametrize("at", [0, PART, 3 * PART, 10 * PART, 19 * PART])
def test_a_sender_that_goes_on_elsewhere_is_cut_off(at):
    one, other = table(A), table(B)
    send(one, B, body_of(8, 20 * PART))
    line = Line(one, other)
    line.pump(1500)
    line.cut()
    there = other.edges["in", A].part.filled
    line = Line(one, other)
    line.talks[0].sender = None
    line.pump()
    if at == there:
        return
    with pytest.raises(FrameError, match="another part"):
        feed(line.talks[1], encode(Kind.MORE, {"seq": 1, "at": at}, bytes(PART)))


def test_a_new_process_cannot_go_on_with_what_the_one_before_began():
    one, other = table(A), table(B)
    send(one, B, body_of(8, 20 * PART))
    line = Line(one, other)
    line.pump(1500)
    line.cut()
    there = other.edges["in", A].part.filled
    line = Line(table(A, life=2, after=one), other)
    line.pump()
    with pytest.raises(FrameError, match="no parcel"):
        feed(line.talks[1], encode(Kind.MORE, {"seq": 1, "at": there}, bytes(PART)))


def test_a_connection_that_is_replaced_leaves_what_came_and_writes_no_more():
    """The receiver has not noticed yet that the old connection is dead."""
    one, other, body = table(A), table(B), body_of(9, 20 * PART)
    send(one, B, body)
    old = Line(one, other)
    old.pump(1530)  # within a segment
    one.ended(old.talks[0], "closed")
    new = Line(one, other)
    new.pump()
    assert np.array_equal(taken(other, A).body, body)
    assert new.sent[0] < len(body)
    with pytest.raises(FrameError):  # at the end of the segment
        feed(old.talks[1], bytes(300))  # what was still on its way, or a lie
    assert np.array_equal(taken(other, A).body, body)


def test_while_another_thread_reads_nothing_is_taken_from_it():
    one, other, body = table(A), table(B), body_of(10, 20 * PART)
    send(one, B, body)
    old = Line(one, other)
    old.pump(1530)
    one.ended(old.talks[0], "closed")
    with old.talks[1].reading:
        new = Line(one, other)
        new.pump()
    assert np.array_equal(taken(other, A).body, body)
    assert new.sent[0] > len(body)  # begun anew


def test_a_new_epoch_forgets_what_came_in_part():
    one, other = table(A), table(B)
    send(one, B, body_of(11, 20 * PART))
    line = Line(one, other)
    line.pump(1500)
    line.cut()
    assert other.edges["in", A].part is not None
    other.adopt(PAIR.amended(identity(0), new_epoch=True))
    assert other.edges["in", A].part is None
