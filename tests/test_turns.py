"""Talks that are carried in turns by one thread, or alone: both must bring them to the same end."""

import signal
import socket
import threading
import time

import pytest

from peerloom.transport.shield import SHIELD, Shield
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


# -- guests: a thread that waits carries the talks meanwhile


@pytest.fixture
def turns():
    turns = InTurns()
    turns.start()
    yield turns
    turns.stop()


def echoing(pipe, by):
    """Answers each word, and notes which thread did it."""
    while (word := (yield from pipe.receiving())) != b"bye":
        by.append(threading.get_ident())
        pipe.sock.send(word)


def asked(other, word):
    other.settimeout(5)
    other.send(word)
    return other.recv(100)


def test_a_guest_carries_while_it_waits_and_the_thread_when_it_resigns(turns, pairs, monkeypatch):
    monkeypatch.setattr("peerloom.transport.turns._AWAY", 60.0)  # however slow this machine is just now
    (pipe, other), by = pairs[0], []
    thread, raised = begun(turns, Turn(echoing(pipe, by), pipe))
    assert asked(other, b"1") == b"1"
    assert by.pop() == turns.ident
    heard = []

    def speak():
        heard.append(asked(other, b"2"))
        turns.notify()

    speaker = threading.Thread(target=speak)
    assert turns.claim() is turns
    turns.wait(0.01)  # the thread knows now that there is a guest
    assert turns.claim() is turns
    speaker.start()
    turns.wait(20.0)
    speaker.join()
    assert (heard, by.pop()) == ([b"2"], threading.get_ident())
    turns.resign()
    assert asked(other, b"3") == b"3", "the thread has come back"
    assert by.pop() == turns.ident
    other.send(b"bye")
    thread.join(5)
    assert not raised


def test_a_guest_waits_for_so_long_and_there_is_only_one(turns):
    assert turns.claim() is turns
    assert turns.claim() is None, "it is claimed already"
    begin = time.monotonic()
    turns.wait(0.05)
    assert 0.05 <= time.monotonic() - begin < 5.0
    assert turns.claim() is turns
    turns.notify()  # before it waits
    turns.wait(20.0)
    assert time.monotonic() - begin < 10.0


def test_what_a_guest_wakes_goes_on_at_once_in_its_own_thread(turns, pairs, monkeypatch):
    monkeypatch.setattr("peerloom.transport.turns._AWAY", 1.5)
    by, pipe = [], pairs[0][0]

    def pausing():
        while len(by) < 3:
            yield Wait(0, 60.0)
            by.append(threading.get_ident())

    turn = Turn(pausing(), pipe)
    thread, _ = begun(turns, turn)
    while turn not in turns._turns:
        time.sleep(0.01)
    turns.claim()
    turns.wait(0.01)
    turn.wake()
    assert not by
    turns.push()
    assert by == [threading.get_ident()]
    turn.wake()
    while len(by) < 2:  # nobody pushed: the thread sees to it
        time.sleep(0.01)
    turns.resign()
    turn.wake()
    thread.join(5)
    assert by == [threading.get_ident(), turns.ident, turns.ident]


def test_no_wake_is_lost_between_guests_threads_and_pauses(pairs):
    """A guest that waits and leaves again and again, and two others who wake: all is done, and nothing is slept through."""
    turns, done, target = InTurns(), [0], [0]
    turns.start()

    def working():
        while done[0] < 3000:
            if done[0] < target[0]:
                done[0] += 1
                if done[0] % 10 == 0:
                    turns.notify()
            else:
                assert not (yield Wait(0, 5.0)), "slept through a wake"

    turn = Turn(working(), pairs[0][0])
    thread, raised = begun(turns, turn)

    def wakes():
        for _ in range(1000):
            target[0] += 1
            turn.wake()

    others = [threading.Thread(target=wakes) for _ in range(2)]
    for other in others:
        other.start()
    for round in range(1000):
        target[0] += 1
        turn.wake()
        if round % 3:
            turns.push()
        if turns.claim() is not None:
            turns.wait(0.0005)
    for other in others:
        other.join()
    target[0] = 3000
    turns.resign()
    turn.wake()
    thread.join(20)
    assert (done[0], raised) == (3000, [])
    turns.stop()


def test_who_waits_as_a_guest_is_let_go_when_all_ends(turns):
    ended = threading.Event()

    def guest():
        turns.claim()
        turns.wait(60.0)
        ended.set()

    threading.Thread(target=guest, daemon=True).start()
    while not turns._claimed:
        time.sleep(0.01)
    turns.stop()
    assert ended.wait(5)
    assert turns.claim() is None


def test_a_guest_that_was_interrupted_leaves_nothing_behind(turns, pairs):
    """A signal may strike before the baton is given back: who says that it will not come again gives it back then."""
    (pipe, other), by = pairs[0], []
    thread, _ = begun(turns, Turn(echoing(pipe, by), pipe))
    assert asked(other, b"1") == b"1"
    turns.claim()
    turns._take_over()
    turns.resign()
    assert asked(other, b"2") == b"2"
    assert by == [turns.ident, turns.ident]
    turns.resign()  # once more does no harm
    other.send(b"bye")
    thread.join(5)


def test_what_a_handler_throws_cuts_no_step_in_two():
    class AskedError(Exception):
        pass

    shield, steps = Shield(), []

    def both():
        with shield:
            with shield:
                steps.append(1)
                shield.throw(AskedError())
            steps.append(2)

    with pytest.raises(AskedError):
        both()
    assert steps == [1, 2]
    with pytest.raises(AskedError):
        shield.throw(AskedError())
    with shield:
        steps.append(3)  # what was raised once is not raised again


def test_a_signal_ends_a_guests_wait_between_two_steps(turns, pairs):
    """Its talks are whole, and go on."""
    (pipe, other), steps = pairs[0], []

    class AskedError(Exception):
        pass

    def ask(number, frame):
        SHIELD.throw(AskedError())

    def talking():
        yield from pipe.receiving()
        steps.append("begin")
        signal.raise_signal(signal.SIGUSR1)
        steps.append("end")
        yield from pipe.receiving()
        steps.append("over")

    before = signal.signal(signal.SIGUSR1, ask)
    try:
        thread, raised = begun(turns, Turn(talking(), pipe))
        turns.claim()
        other.send(b"1")
        with pytest.raises(AskedError):
            turns.wait(20.0)
        assert steps == ["begin", "end"]
        other.send(b"2")
        thread.join(5)
        assert (steps, raised) == (["begin", "end", "over"], [])
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_nobody_waits_for_a_carrier_that_has_ended(monkeypatch, pairs):
    monkeypatch.setattr("peerloom.transport.turns._LOOK", 0.05)
    carry = InTurns()
    carry.start()
    carry.stop()
    with pytest.raises(ConnectionError, match="has ended"):
        carry(Turn(pairs[0][0].receiving(), pairs[0][0]))
