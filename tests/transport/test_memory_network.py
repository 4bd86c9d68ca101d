"""The network in memory: once, in order, accounted for, under every seeded fault."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerloom.errors import PeerError
from peerloom.peers.floats import to_body
from peerloom.transport import OutboxFullError, Parcel, Settings, Skipped, Wanted
from tests.doubles.memory import CrashedError, Faults, MemoryNetwork
from tests.federation import LENGTH, RUN, federation, identity, numbers, outgoing, parcel

PAIR = federation(2, [(0, 1), (1, 0)])
A, B = (member.id for member in PAIR.members)
BAD = Faults(breaks=0.05, delay=(0.0, 0.08))
faults = st.builds(Faults, st.floats(0, 0.1), st.tuples(st.just(0.0), st.floats(0.001, 0.2)))


@given(faults, st.integers(0, 2**32))
def test_every_parcel_arrives_once_and_in_order(bad, seed):
    network = MemoryNetwork(PAIR, RUN, seed, bad)
    with network.endpoint(A) as a, network.endpoint(B) as b:
        receipts = [a.send(B, parcel(round)) for round in range(1, 21)]
        got = [b.take(A, round, 0, 1000.0) for round in range(1, 21)]
        assert [p.round for p in got] == list(range(1, 21))
        assert all((numbers(p) == p.round).all() for p in got)
        assert [p.seq for p in got] == sorted({p.seq for p in got})
        assert a.settle(receipts, 1000.0)
        assert outgoing(a).tally.acked == 20
        assert outgoing(a).tally.balanced


@given(faults, st.integers(0, 2**32), st.lists(st.booleans(), max_size=20), st.integers(1, 6))
def test_exactly_the_bad_ones_among_parcels_under_way_are_refused(bad, seed, good, window):
    network = MemoryNetwork(PAIR, RUN, seed, bad, Settings(inbox=100, window=window))
    with network.endpoint(A) as a, network.endpoint(B) as b:
        receipts = [
            a.send(B, parcel(round, value=1.0 if fine else np.nan))
            for round, fine in enumerate(good)
        ]
        network.pass_time(seed % 3)
        assert a.settle(None, 1000.0)
        assert [receipt.outcome for receipt in receipts] == [
            "acked" if fine else "refused" for fine in good
        ]
        assert outgoing(a).tally.balanced
        for round, fine in enumerate(good):
            assert isinstance(b.take(A, round, 0, 0.0), Parcel) == fine


def test_a_peer_with_an_older_roster_gets_the_newer_one_at_once():
    network = MemoryNetwork(PAIR, RUN, 1)
    with network.endpoint(A) as a, network.endpoint(B) as b:
        a.send(B, parcel(1))
        first, second = Wanted(A, 1, 0), Wanted(A, 2, 0)
        assert list(b.receive_all([first], 10.0, b.roster.version)) == [first]
        assert b.receive_all([second], 10.0, b.roster.version - 1) == {}, (
            "it came before the waiting began"
        )
        assert b.receive_all([second], 0.1) == {second: None}, "who does not say waits"


def test_what_nobody_waits_for_is_settled_after_a_heartbeat():
    network = MemoryNetwork(PAIR, RUN, 1, settings=Settings(heartbeat=1.0, window=4))
    with network.endpoint(A) as a, network.endpoint(B):
        for round in range(3):
            a.send(B, parcel(round))
        network.pass_time(0.5)
        assert outgoing(a).tally.pending == 2, "the first asked, the others did not"
        network.pass_time(1.0)
        assert outgoing(a).tally.acked == 3
        a.send(B, parcel(4))
        assert a.settle(None, 0.1), "who waits for it need not wait so long"


@given(faults, st.integers(0, 2**32))
def test_the_newest_arrives_and_the_rest_is_counted(bad, seed):
    network = MemoryNetwork(PAIR, RUN, seed, bad)
    with network.endpoint(A) as a, network.endpoint(B) as b:
        for round in range(1, 50):
            a.send(B, parcel(round), mode="latest")
            network.pass_time(0.01)
            assert outgoing(a).tally.balanced
        assert a.settle(None, 1000.0)
        assert b.newest(A, 0).round == 49
        tally = outgoing(a).tally
        assert (tally.created, tally.pending, tally.refused) == (49, 0, 0)
        applied = next(link for link in b.links() if link.direction == "in").frames["applied"]
        assert applied == tally.acked


@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from(["send", "crash_sender", "crash_receiver", "time"]), max_size=30),
)
def test_crashes_never_double_or_reorder_within_one_life(seed, steps):
    network = MemoryNetwork(PAIR, RUN, seed, BAD, Settings(retain=4, inbox=100))
    a, b = network.endpoint(A), network.endpoint(B)
    a.start()
    b.start()
    round = 0
    for step in steps:
        if step == "send":
            round += 1
            a.send(B, parcel(round))
        elif step == "crash_sender":
            a = network.endpoint(A)
            a.start()
        elif step == "crash_receiver":
            b = network.endpoint(B)
            b.start()
        else:
            network.pass_time(0.3)
        assert outgoing(a).tally.balanced
    seen = []
    assert a.settle(None, 1000.0)
    for number in range(1, round + 1):
        got = b.take(A, number, 0, 0.0)
        if isinstance(got, Parcel):
            seen.append((got.incarnation, got.seq))
    assert seen == sorted(set(seen))


def test_what_is_sent_together_goes_out_at_the_end_or_when_something_is_waited_for(monkeypatch):
    network, woken = MemoryNetwork(PAIR, RUN, 1), []
    with network.endpoint(A) as a, network.endpoint(B):
        wake = a._table.wake
        monkeypatch.setattr(a._table, "wake", lambda peer: (woken.append(peer), wake(peer)))
        with a.together():
            first = a.send(B, parcel(1))
            assert not woken
            assert a.settle([first], 10.0)
            assert woken == [B]
            a.send(B, parcel(2))
            a.send(B, parcel(3))
            assert woken == [B]
        assert woken == [B] * 3
        for waiting in (lambda: a.take(B, 1, 0, 0.01), lambda: a.wait_for_arrivals(0, 0.01)):
            with a.together():
                a.send(B, parcel(4))
                before = len(woken)
                waiting()
                assert len(woken) == before + 1
        a.send(B, parcel(5))
        assert woken == [B] * 6


def test_a_restarted_receiver_gets_the_rounds_it_asks_for():
    network = MemoryNetwork(PAIR, RUN, 1, settings=Settings(retain=3))
    a, b = network.endpoint(A), network.endpoint(B)
    a.start()
    b.start()
    for round in range(1, 6):
        a.send(B, parcel(round))
        assert b.take(A, round, 0, 10.0).round == round
    a.settle(None, 10.0)
    b = network.endpoint(B)
    b.expect(4)
    b.start()
    assert [b.take(A, round, 0, 10.0).round for round in (4, 5)] == [4, 5]
    assert outgoing(a).tally.balanced


def test_a_restarted_receiver_gets_the_newest_again():
    network = MemoryNetwork(PAIR, RUN, 1)
    a, b = network.endpoint(A), network.endpoint(B)
    a.start()
    b.start()
    a.send(B, parcel(7), mode="latest")
    a.skip(9)
    a.settle(None, 10.0)
    b = network.endpoint(B)
    b.start()
    assert b.wait_for_arrivals(0, 10.0) == 1
    assert b.newest(A, 0).round == 7
    assert b.take(A, 8, 0, 10.0) == Skipped(8, promised=True)


def test_taking_wakes_for_a_skip_and_for_a_link_that_is_down():
    network = MemoryNetwork(PAIR, RUN, 1, settings=Settings(wait=5.0))
    with network.endpoint(A) as a, network.endpoint(B) as b:
        a.skip(3)
        assert b.take(A, 3, 0, 100.0) == Skipped(3, promised=True)
        assert network.now < 1
        before = network.now
        network.crash(A)
        assert b.take(A, 4, 0, 100.0) is None
        assert network.now - before == pytest.approx(5.0)


@given(st.floats(500.0, 1000.0))  # beyond 1024 a clock counts in steps twice as large
def test_waiting_ends_at_its_moment_however_the_clock_is_rounded(before):
    network = MemoryNetwork(PAIR, RUN, 1, settings=Settings(wait=600.0))
    with network.endpoint(A), network.endpoint(B) as b:
        network.pass_time(before)
        network.crash(A)
        assert b.take(A, 1, 0, 10_000.0) is None
        assert network.now == pytest.approx(before + 600.0, abs=1e-9)


def test_late_is_kept_apart_and_never_taken_twice():
    network = MemoryNetwork(PAIR, RUN, 1)
    with network.endpoint(A) as a, network.endpoint(B) as b:
        assert b.take(A, 1, 0, 0.5) is None
        a.send(B, parcel(1))
        a.send(B, parcel(2))
        assert b.receive_all([Wanted(A, 1, 0), Wanted(A, 2, 0)], 5.0)[Wanted(A, 1, 0)] is None
        assert b.take(A, 2, 0, 0.1) is None, "taken a moment ago"
        assert [late.round for late in b.late(A)] == [1]
        assert b.late(A) == []


STAR = federation(4, [(1, 0), (2, 0), (3, 0)])


def test_once_enough_are_there_the_first_are_taken_and_the_others_late():
    network = MemoryNetwork(STAR, RUN, 1)
    me, *others = (member.id for member in STAR.members)
    posts = [network.endpoint(peer) for peer in (me, *others)]
    for post in posts:
        post.start()
    here, one, two, three = posts
    for post in (three, one):  # both are there before anyone asks
        post.send(me, parcel(1))
        assert post.settle(None, 5.0)
    wanted = [Wanted(peer, 1, 0) for peer in others]
    found = here.receive_all(wanted, 5.0, enough=1)
    assert [isinstance(found[want], Parcel) for want in wanted] == [False, False, True]
    assert [found[want] for want in wanted[:2]] == [None, None]
    assert [late.round for late in here.late(others[0])] == [1], "it was there"
    two.send(me, parcel(1))
    assert two.settle(None, 5.0)
    assert [late.round for late in here.late(others[1])] == [1], "it came later"
    before = network.now
    nobody = here.receive_all([Wanted(peer, 2, 0) for peer in others], 5.0, enough=0)
    assert set(nobody.values()) == {None}
    assert network.now == before, "none are enough at once"
    one.send(me, parcel(3))
    two.send(me, parcel(3))
    found = here.receive_all([Wanted(peer, 3, 0) for peer in others], 5.0, enough=2)
    assert [isinstance(answer, Parcel) for answer in found.values()].count(True) == 2
    assert network.now < before + 1.0, "the third was not waited for"
    found = here.receive_all([Wanted(peer, 4, 0) for peer in others], 5.0, enough=2)
    assert set(found.values()) == {None}, "the deadline holds"


def test_what_a_later_parcel_proves_lost_is_not_waited_for():
    network = MemoryNetwork(PAIR, RUN, 1)
    with network.endpoint(A) as a, network.endpoint(B) as b:
        assert b.take(A, 1, 0, 0.5) is None
        a.send(B, parcel(2))
        assert b.take(A, 2, 0, 5.0).round == 2
        a.send(B, parcel(1))
        a.settle(None, 5.0)
        assert b.late(A) == []


def test_a_restarted_peer_still_gets_what_it_had_given_up():
    network = MemoryNetwork(PAIR, RUN, 1, settings=Settings(retain=10))
    a, b = network.endpoint(A), network.endpoint(B)
    a.start()
    b.start()
    assert b.take(A, 1, 0, 0.5) is None
    a.send(B, parcel(1))
    a.settle(None, 5.0)
    network.crash(B)
    b = network.endpoint(B)
    b.expect(5, {A: [(1, 0)]})
    b.start()
    network.pass_time(5.0)
    assert [late.round for late in b.late(A)] == [1]


def test_a_peer_that_runs_ahead_waits():
    network = MemoryNetwork(PAIR, RUN, 1, settings=Settings(inbox=2, outbox=5, window=1))
    with network.endpoint(A) as a, network.endpoint(B) as b:
        for round in range(1, 6):
            a.send(B, parcel(round))
        network.pass_time(20)
        assert outgoing(a).tally.pending == 3
        for round in (6, 7):
            a.send(B, parcel(round))
        with pytest.raises(OutboxFullError):
            a.send(B, parcel(8))
        assert a.withdraw(B, 5) == 2, (
            "rounds 3 and 4, for which there was no room; 5 and later stay"
        )
        kinds = [type(b.take(A, round, 0, 50.0)).__name__ for round in range(1, 6)]
        assert kinds == ["Parcel", "Parcel", "Skipped", "Skipped", "Parcel"]


def test_a_removed_member_is_cut_off_and_the_others_go_on():
    three = federation(3, [(0, 1), (2, 1), (1, 2)])
    ids = [member.id for member in three.members]
    network = MemoryNetwork(three, RUN, 1)
    b = network.endpoint(ids[1])
    c = network.endpoint(ids[2])
    a = network.endpoint(ids[0])
    for endpoint in (a, b, c):
        endpoint.start()
    c.send(ids[1], parcel(1))
    assert b.take(ids[2], 1, 0, 5.0).round == 1
    without = three.without_member(identity(0), "peer-2")
    a.send(ids[1], parcel(2))
    b.consider(without)
    with pytest.raises(PeerError, match="founder removed this peer"):
        c.take(ids[1], 2, 0, 5.0)  # it was shown the roster, signed
    assert b.closed("in", ids[2])
    assert not b.closed("in", ids[0])
    assert b.take(ids[2], 2, 0, 5.0) is None, "nobody waits for it"
    told = b.send(ids[2], parcel(2))
    assert (told.outcome, told.reason) == ("refused", "no_link")
    assert b.take(ids[0], 2, 0, 5.0).epoch == 0, "what the others sent is as good as before"
    with pytest.raises(PeerError, match="founder removed this peer"):
        c.send(ids[1], parcel(3))
    b.consider(three)
    assert b.roster.version == 2, "never back"


class Notes(list):
    """A history in memory."""

    def note(self, what, **facts):
        self.append({"what": what, **facts})


@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 8), st.floats(0.0, 0.5))
def test_acked_means_applied_also_when_a_link_is_removed_under_way(seed, window, burst, when):
    """The thread that uses a newer roster may be late to say goodbye."""
    notes = {A: Notes(), B: Notes()}
    settings = Settings(window=window, outbox=200, inbox=100)
    network = MemoryNetwork(PAIR, RUN, seed, Faults(), settings, notes.__getitem__)
    with network.endpoint(A) as a, network.endpoint(B) as b:
        without = PAIR.without_links(identity(0), [(A, B)])
        table = network.drivers[B].table
        rewire, receipts = table.rewire, []
        table.rewire = lambda: network.later(rewire, (0.0, 0.2))
        network.at(when, lambda: b.consider(without))
        for round in range(1, 60):
            receipts.append(a.send(B, parcel(round)))
            if round % burst == 0:
                network.pass_time(0.01 * burst)
        network.pass_time(20.0)
        acked = {line["seq"] for line in notes[A] if line["what"] == "ack"}
        applied = {line["seq"] for line in notes[B] if line["what"] == "apply"}
        assert acked <= applied
        assert not any(receipt.outcome == "pending" for receipt in receipts), "all is settled"


def test_epochs_separate():
    two = federation(2, [(0, 1)])
    network = MemoryNetwork(two, RUN, 1)
    a, b = (network.endpoint(member.id) for member in two.members)
    for endpoint in (a, b):
        endpoint.start()
    newer = two.with_links(identity(0), two.links)
    b.consider(newer)
    assert (b.roster, b.offered()) == (two, newer), "a run stays in its epoch"
    b.adopt(newer)
    late = a.send(b.me, parcel(2))
    assert a.settle([late], 5.0)
    assert (late.outcome, late.reason) == ("refused", "stale_epoch")
    a.adopt(newer)
    assert a.settle([a.send(b.me, parcel(3))], 5.0)
    assert b.take(a.me, 3, 0, 5.0).epoch == 1
    with pytest.raises(PeerError, match="not newer"):
        a.adopt(two)


RING = federation(4, [(i, j) for i in range(4) for j in ((i + 1) % 4, (i - 1) % 4)])
IDS = [member.id for member in RING.members]
ROUNDS = 8


def start(peer):
    return np.full(LENGTH, float(IDS.index(peer)))


def averaging(done):
    """A small synchronous engine: the mean of three; crashes spare its checkpoint `done`."""

    def program(post):
        round, x, before = done.get(post.me, (0, start(post.me), None))
        post.expect(round + 1)
        # Both ends of a link may have crashed: then nobody else has this round any more.
        if before is not None:
            for target in post.roster.targets(post.me):
                post.send(target, Parcel(0, round, 0, to_body(before)))
        sources = post.roster.sources(post.me)
        while round < ROUNDS:
            round += 1
            for target in post.roster.targets(post.me):
                post.send(target, Parcel(0, round, 0, to_body(x)))
            got = post.receive_all([Wanted(peer, round, 0) for peer in sources], 1000.0)
            before, x = x, (x + sum(numbers(letter) for letter in got.values())) / 3
            done[post.me] = (round, x, before)
        post.settle(None, 5.0)
        return x

    return program


def expected():
    values = {peer: start(peer) for peer in IDS}
    for _ in range(ROUNDS):
        values = {
            peer: (values[peer] + sum(values[source] for source in RING.sources(peer))) / 3
            for peer in IDS
        }
    return values


@given(st.integers(0, 2**32), st.booleans())
def test_programs_compute_the_same_whatever_the_network_does(seed, crash):
    settings = Settings(retain=2, wait=1e6, late=1e6)
    network = MemoryNetwork(RING, RUN, seed, BAD, settings)
    crashes = [(0.3, IDS[1], 0.4), (0.9, IDS[2], 0.2), (0.9, IDS[1], 0.2)] if crash else []
    done = {}
    results = network.run({peer: averaging(done) for peer in IDS}, crashes)
    for peer, value in expected().items():
        np.testing.assert_allclose(results[peer], value, rtol=1e-12)


def test_the_same_seed_gives_the_same_history():
    def trace(seed):
        lines = []
        network = MemoryNetwork(
            RING,
            RUN,
            seed,
            BAD,
            Settings(retain=2),
            on_event=lambda event: lines.append((network.now, event)),
        )
        network.run({peer: averaging({}) for peer in IDS}, [(0.2, IDS[0], 0.1)])
        return lines

    assert trace(3) == trace(3)
    assert trace(3) != trace(4)


def test_an_error_of_a_program_reaches_the_caller():
    network = MemoryNetwork(PAIR, RUN, 1)

    def broken(post):
        post.take(B, 1, 0, 1.0)
        raise ValueError("as planned")

    with pytest.raises(ValueError, match="as planned"):
        network.run({A: broken, B: lambda post: post.take(A, 1, 0, 1.0)})
    assert not issubclass(CrashedError, Exception), (
        "no program takes it for an error it can deal with"
    )
