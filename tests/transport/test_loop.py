"""Which thread drives the connections, and how a wait is ended from outside."""

import os
import signal
import threading
import time
from dataclasses import replace

import pytest

from peerloom.transport import StopRequested
from peerloom.transport.connection import Connection
from peerloom.transport.conversation import Conversation
from peerloom.transport.greeting import Greetings
from peerloom.transport.loop import Loop
from peerloom.transport.receiver import Receiver
from peerloom.transport.sender import Sender
from tests.federation import QUICK, endpoint, federation, free_ports, parcel, until

CALM = replace(QUICK, dead=20.0, wait=20.0)  # a busy machine must not decide these tests


@pytest.fixture
def ports():
    return free_ports(3)


@pytest.fixture(params=["one loop", "several"])
def pair(request, tmp_path, ports):
    roster = federation(2, [(0, 1), (1, 0)], ports)
    chosen = CALM if request.param == "one loop" else replace(CALM, large=0)
    with (
        endpoint(0, roster, tmp_path, ports[0], settings=chosen) as a,
        endpoint(1, roster, tmp_path, ports[1], settings=chosen) as b,
    ):
        assert until(lambda: all(link.up for link in (*a.links(), *b.links())))
        yield a, b


@pytest.fixture
def lent(tmp_path, ports):
    """A pair whose loops are driven by waiting threads."""
    roster = federation(2, [(0, 1), (1, 0)], ports)
    with (
        endpoint(0, roster, tmp_path, ports[0], settings=CALM) as a,
        endpoint(1, roster, tmp_path, ports[1], settings=CALM) as b,
    ):
        assert until(lambda: all(link.up for link in (*a.links(), *b.links())))
        yield a, b


def test_a_waiting_thread_drives_the_loop_which_otherwise_has_its_own(lent, monkeypatch):
    a, b = lent
    read, by = Connection.read, []

    def noted(self):
        if self.conversation._table.me == b.me:
            by.append(threading.current_thread().name)
        read(self)

    monkeypatch.setattr(Connection, "read", noted)
    for round in range(1, 40):
        a.send(b.me, parcel(round))
        assert b.take(a.me, round, 0, 10.0).round == round
        if round == 20:
            by.clear()  # by now the thread has learnt that somebody comes again and again
    assert by.count("MainThread") > len(by) / 2, by
    by.clear()
    receipt = a.send(b.me, parcel(40))
    assert until(lambda: receipt.outcome == "acked"), "nobody waits at b, and still it is answered"
    assert set(by) == {"links"}


def test_links_live_while_nobody_waits(tmp_path, ports):
    """An engine that computes for long sends no heartbeats itself."""
    roster, chosen = federation(2, [(0, 1), (1, 0)], ports), replace(QUICK, dead=2.0)
    with (
        endpoint(0, roster, tmp_path, ports[0], settings=chosen) as a,
        endpoint(1, roster, tmp_path, ports[1], settings=chosen) as b,
    ):
        a.send(b.me, parcel(1))
        assert b.take(a.me, 1, 0, 5.0).round == 1
        before = {link.peer: dict(link.reconnects) for link in a.links()}
        time.sleep(3.0)
        assert all(link.up for link in (*a.links(), *b.links()))
        assert {link.peer: dict(link.reconnects) for link in a.links()} == before


def test_several_threads_wait_at_one_end_and_each_gets_its_own(pair):
    a, b = pair
    found = {}

    def wait(round):
        found[round] = (
            b.wait_for_arrivals(round - 1, 10.0) if round % 2 else b.settle([receipts[round]], 10.0)
        )

    receipts = {round: b.send(a.me, parcel(round)) for round in range(2, 9, 2)}
    threads = [threading.Thread(target=wait, args=(round,)) for round in range(1, 9)]
    for thread in threads:
        thread.start()
    for round in range(1, 9):
        time.sleep(0.02)
        a.send(b.me, parcel(round))
    for thread in threads:
        thread.join(15.0)
    assert not any(thread.is_alive() for thread in threads)
    assert all(found[round] >= round if round % 2 else found[round] for round in range(1, 9))


def test_no_wakeup_is_lost_between_threads_that_send_and_wait(pair):
    """Two threads send to each other and wait, a third sends too: no one needs heartbeats."""
    a, b = pair
    rounds, others, over = 150, [0], threading.Event()

    def play(mine, other):
        for round in range(1, rounds + 1):
            mine.send(other.me, parcel(round))
            assert mine.take(other.me, round, 0, 20.0).round == round

    def disturb():
        while not over.is_set():
            others[0] += 1
            a.send(b.me, parcel(others[0], channel=1), mode="latest")
            time.sleep(0.001)

    threads = [threading.Thread(target=play, args=ends) for ends in ((a, b), (b, a))]
    third = threading.Thread(target=disturb)
    begin = time.monotonic()
    for thread in (*threads, third):
        thread.start()
    for thread in threads:
        thread.join(60.0)
    over.set()
    third.join()
    assert not any(thread.is_alive() for thread in threads)
    assert time.monotonic() - begin < rounds * QUICK.heartbeat, (
        "each round would have waited for a heartbeat"
    )


@pytest.mark.parametrize("what", ["take", "settle", "wait_for_arrivals"])
def test_a_request_to_stop_ends_every_wait_now_and_later(what, pair):
    a, b = pair
    waits = {
        "take": lambda: b.take(a.me, 99, 0, 30.0),
        "settle": lambda: b.settle(
            [b.send(a.me, parcel(k)) for k in range(1, 20)], 30.0
        ),  # room for 16
        "wait_for_arrivals": lambda: b.wait_for_arrivals(10**6, 30.0),
    }
    timer = threading.Timer(0.3, b.request_stop)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(StopRequested):
        waits[what]()
    assert time.monotonic() - begin < 5.0
    timer.join()
    with pytest.raises(StopRequested):
        waits[what]()
    with pytest.raises(StopRequested):
        b.raise_if_stopped()
    assert not issubclass(StopRequested, Exception), "nothing catches it by the way"


def test_a_signal_ends_a_wait_between_two_frames(pair):
    """Nothing is injected into a step: the other side sees whole frames, and a goodbye."""
    a, b = pair
    before = signal.signal(signal.SIGUSR1, lambda number, frame: b.request_stop())
    try:
        over = threading.Event()

        def flood():
            for round in range(1, 10_000):
                if over.is_set():
                    return
                a.send(b.me, parcel(round, channel=1), mode="latest")
                if round == 200:
                    os.kill(os.getpid(), signal.SIGUSR1)

        thread = threading.Thread(target=flood)
        thread.start()
        with pytest.raises(StopRequested):
            b.take(a.me, 10**6, 0, 30.0)
        over.set()
        thread.join()
        b.close()
        assert until(lambda: all(not link.up for link in a.links()))
        assert not a.refusals()
    finally:
        signal.signal(signal.SIGUSR1, before)


def fails_twice(monkeypatch, owner, name):
    """Let the first two calls of a method fail as a fault of the program would."""
    works, failed = getattr(owner, name), []

    def broken(self, *given, **named):
        if len(failed) < 2:
            failed.append(1)
            raise ValueError("as planned")
        return works(self, *given, **named)

    monkeypatch.setattr(owner, name, broken)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Receiver, "apply"),
        (Receiver, "gathered"),
        (Sender, "next"),
        (Sender, "acked"),
        (Conversation, "_take_pong"),
        (Conversation, "tick"),
        (Connection, "write"),
        (Loop, "_watch"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_an_error_of_this_program_ends_one_connection_and_nothing_else(
    pair, monkeypatch, caplog, owner, name
):
    """Wherever it is: the link comes back, and the traceback is in the log once."""
    a, b = pair
    a.send(b.me, parcel(1))
    assert b.take(a.me, 1, 0, 10.0).round == 1
    fails_twice(monkeypatch, owner, name)
    a.send(b.me, parcel(2))
    b.send(a.me, parcel(2))
    assert b.take(a.me, 2, 0, 20.0).round == 2, "over a new connection"
    assert a.take(b.me, 2, 0, 20.0).round == 2
    assert a.settle(None, 20.0)
    assert until(lambda: "a fault of this program" in caplog.text)
    counted = a.refusals().get("internal", 0) + b.refusals().get("internal", 0)
    assert 1 <= counted <= 2
    assert caplog.text.count("Traceback") <= 2, "one for each end"


def test_an_observer_that_raises_is_dropped_and_links_go_on(tmp_path, ports, caplog):
    def raises(event):
        raise ValueError("as planned")

    roster = federation(2, [(0, 1), (1, 0)], ports)
    with (
        endpoint(0, roster, tmp_path, ports[0], settings=CALM, on_event=raises) as a,
        endpoint(1, roster, tmp_path, ports[1], settings=CALM) as b,
    ):
        for round in (1, 2):
            a.send(b.me, parcel(round))
            assert b.take(a.me, round, 0, 20.0).round == round
            a._table.cut(a._table.greetings.current(b.me))
        assert not a.refusals()
    assert caplog.text.count("An observer of links failed") == 1


@pytest.mark.parametrize("owner", [Greetings, Conversation], ids=lambda value: value.__name__)
def test_an_error_of_this_program_in_a_greeting_is_counted_and_the_next_one_works(
    tmp_path, ports, monkeypatch, caplog, owner
):
    fails_twice(monkeypatch, owner, "accept" if owner is Greetings else "_take_greeting")
    roster = federation(2, [(0, 1), (1, 0)], ports)
    with endpoint(0, roster, tmp_path, ports[0]) as a, endpoint(1, roster, tmp_path, ports[1]) as b:
        a.send(b.me, parcel(1))
        assert b.take(a.me, 1, 0, 20.0).round == 1
        assert a.refusals().get("internal", 0) + b.refusals().get("internal", 0) == 2
        assert "a fault of this program" in caplog.text


def test_closing_ends_every_wait(tmp_path, ports):
    roster, found = federation(2, [(0, 1), (1, 0)], ports), []
    with endpoint(0, roster, tmp_path, ports[0]) as a, endpoint(1, roster, tmp_path, ports[1]) as b:
        assert until(lambda: all(link.up for link in b.links()))
        thread = threading.Thread(target=lambda: found.append(b.take(a.me, 1, 0, 60.0)))
        thread.start()
        time.sleep(0.2)
        b.close()
        thread.join(10.0)
        assert found == [None]


def test_an_endpoint_that_was_never_started_closes_at_once(tmp_path, ports):
    begin = time.monotonic()
    endpoint(0, federation(2, [(0, 1)], ports), tmp_path, ports[0]).close()
    assert time.monotonic() - begin < 2.0


def test_links_come_about_after_no_thread_was_free(tmp_path, ports, monkeypatch):
    """A container limits processes, and threads are among them; nobody may stay deaf for that."""
    roster, refused = federation(2, [(0, 1), (1, 0)], ports), {"from-unknown": 3, "to-": 3}
    start = threading.Thread.start

    def meagre(thread):
        for name, left in refused.items():
            if thread.name.startswith(name) and left:
                refused[name] -= 1
                raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", meagre)
    with endpoint(0, roster, tmp_path, ports[0]) as a, endpoint(1, roster, tmp_path, ports[1]) as b:
        assert until(lambda: all(link.up for link in (*a.links(), *b.links())))
    assert refused == {"from-unknown": 0, "to-": 0}
