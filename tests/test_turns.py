"""Talks that are carried in turns by one thread, or alone: both must bring them to the same end."""

import socket
import threading
import time

import pytest

from peerloom.transport.turns import READ, WRITE, Alone, InTurns, Turn, Wait, carried_alone


class Pipe:
    """A plain connection."""

    def __init__(self, sock):
        self.sock = sock
        self.sock.setblocking(False)
        self.sipped = b""

    def fileno(self):
        return self.sock.fileno()

    def sip(self):
        got = self.sock.recv(10)
        if not got:
            raise ConnectionError("closed")
        self.sipped += got

    def receiving(self, patience=5.0):
        """Waits for READ, then reads."""
        yield Wait(READ, patience)
        return self.sock.recv(100)


@pytest.fixture
def pairs():
    made = [socket.socketpair() for _ in range(6)]
    yield [(Pipe(ours), theirs) for ours, theirs in made]
    for pair in made:
        for end in pair:
            end.close()


@pytest.fixture(params=["in turns", "alone"])
def carry(request):
    carry = InTurns() if request.param == "in turns" else Alone()
    carry.start()
    yield carry
    carry.stop()


def begun(carry, turn):
    """Carry a turn in a thread of its own; what it raised is appended to a list."""
    raised = []

    def run():
        try:
            carry(turn)
        except OSError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, raised


def test_all_talks_come_to_their_end_whatever_their_order(carry, pairs):
    heard = {}

    def echoing(number, pipe):
        for _ in range(3):
            got = yield from pipe.receiving()
            heard.setdefault(number, []).append(got)
            yield Wait(WRITE, 5.0)
            pipe.sock.send(got.upper())

    threads = [begun(carry, Turn(echoing(k, pipe), pipe))[0] for k, (pipe, _) in enumerate(pairs)]
    for word in (b"one", b"two", b"three"):
        for _, other in reversed(pairs):
            other.send(word)
        for _, other in pairs:
            other.settimeout(5)
            assert other.recv(100) == word.upper()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()
    assert heard == {k: [b"one", b"two", b"three"] for k in range(len(pairs))}


def test_silence_ends_a_talk_with_its_reason_and_disturbs_no_other(carry, pairs):
    (silent, _), (lively, other) = pairs[:2]
    heard = []

    def hearing():
        heard.append((yield from lively.receiving()))

    def listening():
        yield from silent.receiving(patience=0.05)

    first, raised = begun(carry, Turn(listening(), silent))
    second, nothing = begun(carry, Turn(hearing(), lively))
    first.join(5)
    assert [type(error) for error in raised] == [TimeoutError]
    assert second.is_alive()
    other.send(b"still here")
    second.join(5)
    assert heard == [b"still here"]
    assert not nothing


def test_a_pause_tells_whether_it_lasted_to_its_end(carry, pairs):
    told = []

    def pausing():
        told.append((yield Wait(0, 0.05)))
        told.append((yield Wait(0, 60.0)))

    turn = Turn(pausing(), pairs[0][0])
    thread, raised = begun(carry, turn)
    while not told:
        time.sleep(0.01)
    turn.wake()
    thread.join(5)
    assert told == [True, False]
    assert not raised


def test_what_a_talk_raises_is_raised_where_it_came_from(carry, pairs):
    def failing():
        yield Wait(WRITE, 5.0)
        raise ConnectionResetError("as planned")

    with pytest.raises(ConnectionResetError, match="as planned"):
        carry(Turn(failing(), pairs[0][0]))


def test_a_connection_that_closes_in_a_pause_is_noticed_at_once(pairs):
    carry = InTurns()
    carry.start()
    (pipe, other), ends = pairs[0], []

    def pausing():
        try:
            yield Wait(0, 60.0)
        finally:
            ends.append("over")

    thread, raised = begun(carry, Turn(pausing(), pipe))
    other.send(b"hm")
    while pipe.sipped != b"hm":
        time.sleep(0.01)
    assert thread.is_alive()
    other.close()
    thread.join(5)
    assert [str(error) for error in raised] == ["closed"]
    assert ends == ["over"]
    carry.stop()


def test_a_wake_between_two_pauses_is_not_lost(pairs):
    """Woken thousands of times from another thread, a talk never sleeps on while something is to be done."""
    carry, done, target = InTurns(), [0], [0]
    carry.start()

    def working():
        while done[0] < 3000:
            if done[0] < target[0]:
                done[0] += 1
            else:
                assert not (yield Wait(0, 5.0)), "slept through a wake"

    turn = Turn(working(), pairs[0][0])
    thread, raised = begun(carry, turn)
    for _ in range(3000):
        target[0] += 1
        turn.wake()
    thread.join(20)
    assert not thread.is_alive()
    assert done[0] == 3000
    assert not raised
    carry.stop()


def test_a_talk_alone_gives_back_what_it_returns(pairs):
    pipe, other = pairs[0]
    other.send(b"word")
    assert carried_alone(pipe.receiving(), pipe) == b"word"


def test_who_was_never_started_stops_at_once():
    InTurns().stop()
    Alone().stop()


def test_nobody_waits_for_a_carrier_that_has_ended(monkeypatch, pairs):
    monkeypatch.setattr("peerloom.transport.turns._LOOK", 0.05)
    carry = InTurns()
    carry.start()
    carry.stop()
    with pytest.raises(ConnectionError, match="has ended"):
        carry(Turn(pairs[0][0].receiving(), pairs[0][0]))
