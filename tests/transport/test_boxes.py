"""Outbox and inbox, the account of a link: exact for every sequence of events."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerloom.transport import Gap, OutboxFullError, Parcel, RefusedError, Skipped
from peerloom.transport.inbox import Inbox
from peerloom.transport.outbox import Outbox


def parcel(round, channel=0, **order):
    return Parcel(channel, round, 0, np.zeros(8, np.uint8), **order)


def arrived(round, incarnation, seq, mix_index=0, epoch=0):
    return Parcel(0, round, mix_index, np.zeros(8, np.uint8), "p", epoch, incarnation, seq)


DEEDS = [
    "ordered",
    "latest",
    "skip",
    "send",
    "ack",
    "refuse",
    "again",
    "reconnect",
    "restart",
    "withdraw",
    "epoch",
    "press",
]
STEPS = st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 3)), max_size=60)


@given(STEPS, st.integers(0, 3), st.integers(1, 4))
def test_the_account_balances_whatever_happens(steps, retain, window):
    box, epoch, life = Outbox("p", 5, retain, window=window), 0, 1
    arrived_seq, last_sent, receipts = 0, 0, []
    for what, number in steps:
        last = box.last
        if what in ("ordered", "latest"):
            try:
                receipts.append(box.put(parcel(number, number), what, epoch, 0.0))
            except OutboxFullError:
                assert sum(e.mode == "ordered" for e in box) == 5
        elif what == "skip":
            receipts.append(box.skip(number, epoch, 0.0))
        elif what == "send":
            entry = box.next()
            if entry is not None:
                assert entry.seq > last, "numbers grow in the order of sending"
                assert entry.seq <= last_sent + 1
                last_sent = max(last_sent, entry.seq)
                arrived_seq = max(arrived_seq, entry.seq - 1)
        elif what == "ack":
            assert all(entry.receipt.outcome == "acked" for entry in box.acked(last))
            assert box.last == 0
            arrived_seq = max(arrived_seq, last)
        elif what == "refuse":
            box.acked(last - 1)
            assert box.refused(last, "x") == bool(last)
        elif what == "again":
            box.again()
            assert box.last == 0
        elif what == "reconnect":
            box.resume(1, (1, arrived_seq), life, 0, epoch)
        elif what == "restart":
            life, arrived_seq = life + 1, 0
            box.resume(1, (0, 0), life, number, epoch)
        elif what == "withdraw":
            box.withdraw(number)
        elif what == "press":
            box.request_answers()
            assert box.answers_requested == bool(last)
        else:
            epoch += 1
            box.forget_epochs(epoch)
        assert box.tally.balanced, (what, box.tally)
        assert box.tally.pending == len(list(box))
    assert sum(r.outcome == "pending" for r in receipts) <= box.tally.pending


def sent(box, count):
    """Put so many parcels and send them; whether each asks for an answer."""
    asks = []
    for round in range(count):
        box.put(parcel(round), "ordered", 0, 0.0)
        asks.append(box.next().asks)
    return asks


def test_one_answer_per_window_acknowledges_all_small_parcels_of_it():
    box = Outbox("p", 20, 0, window=3)
    assert sent(box, 1) == [True], "nothing is known of the other side yet"
    assert [entry.seq for entry in box.acked(1)] == [1]
    assert sent(box, 3) == [False, False, True]
    assert [entry.seq for entry in box.acked(4)] == [2, 3, 4]
    assert (box.tally.acked, box.last) == (4, 0)
    assert sent(Outbox("p", 20, 0), 3) == [True, True, True], (
        "a window of one is a frame and its answer in turn"
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda box: box.resume(1, (1, 1), 1, 0, 0),
        lambda box: box.refused(2, "x"),
        lambda box: box.again(),
        lambda box: box.request_answers(),
    ],
    ids=["a new connection", "a refusal", "sent again", "somebody waits"],
)
def test_every_parcel_asks_for_an_answer_until_one_was_acknowledged(change):
    box = Outbox("p", 20, 0, window=9)
    sent(box, 1)
    box.acked(1)
    assert sent(box, 1) == [False]
    change(box)
    box.put(parcel(5), "ordered", 0, 0.0)
    assert box.next().asks
    while (entry := box.next()) is not None:
        assert entry.asks
    box.acked(box.last)
    assert sent(box, 1) == [False]


def test_parcels_that_are_large_or_replace_others_or_begin_an_epoch_ask_for_an_answer():
    box = Outbox("p", 20, 0, window=9)
    sent(box, 1)
    box.acked(1)
    for put in (
        lambda: box.put(parcel(2), "latest", 0, 0.0),
        lambda: box.skip(3, 0, 0.0),
        lambda: box.put(Parcel(0, 4, 0, np.zeros(80_000, np.uint8)), "ordered", 0, 0.0),
        lambda: box.put(parcel(5), "ordered", 1, 0.0),
    ):
        assert sent(box, 1) == [False]
        put()
        assert box.next().asks


def test_what_arrived_without_an_answer_is_not_sent_again():
    box = Outbox("p", 5, 0)
    first, second = box.put(parcel(1), "ordered", 0, 0.0), box.put(parcel(2), "ordered", 0, 0.0)
    box.next()
    box.resume(7, (7, 1), 1, 0, 0)
    assert (first.outcome, second.outcome) == ("acked", "pending")
    assert box.next().round == 2


def test_a_restarted_receiver_gets_retained_rounds_before_new_ones():
    box = Outbox("p", 9, retain=3)
    box.resume(1, (0, 0), 1, 0, 0)
    for round in (1, 2, 3, 4):
        box.put(parcel(round), "ordered", 0, 0.0)
        box.acked(box.next().seq)
    box.put(parcel(5), "ordered", 0, 0.0)
    box.next()
    box.resume(1, (0, 0), 2, 3, 0)
    rounds = []
    while (entry := box.next()) is not None:
        rounds.append((entry.round, entry.seq))
        box.acked(entry.seq)
    assert [round for round, _ in rounds] == [3, 4, 5]
    assert [seq for _, seq in rounds] == sorted(seq for _, seq in rounds)
    assert box.tally.balanced


def test_newest_replaces_only_what_is_not_on_its_way():
    box = Outbox("p", 5, 0)
    sent = box.put(parcel(1), "latest", 0, 0.0)
    box.next()
    waiting = box.put(parcel(2), "latest", 0, 0.0)
    other = box.put(parcel(2, channel=1), "latest", 0, 0.0)
    box.put(parcel(3), "latest", 0, 0.0)
    assert (sent.outcome, waiting.outcome, other.outcome) == ("pending", "superseded", "pending")


def test_a_full_outbox_says_so_and_changes_nothing():
    box = Outbox("p", 1, 0)
    box.put(parcel(1), "ordered", 0, 0.0)
    with pytest.raises(OutboxFullError, match="mode='latest'"):
        box.put(parcel(2), "ordered", 0, 0.0)
    assert box.tally.created == 1


ORDERS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 5)), max_size=40)


@given(ORDERS)
def test_an_inbox_applies_at_most_once_and_in_order(orders):
    box, taken, applied = Inbox("p"), [], []
    for incarnation, seq, round in orders:
        result = box.deliver(arrived(round, incarnation, seq), "ordered", 0)
        if result != "duplicate":
            taken.append((incarnation, seq))
        if result == "applied":
            applied.append(round)
    assert taken == sorted(set(taken))
    assert len(applied) == len(set(applied)), "a round is applied once, whoever sends it again"


def test_what_a_later_process_sends_again_replaces_what_lies_untaken():
    box = Inbox("p")
    assert box.deliver(arrived(4, 1, 1), "ordered", 0) == "applied"
    assert box.look(3, 0) == Skipped(3)
    assert box.deliver(arrived(2, 2, 1), "ordered", 0) == "applied"
    assert box.look(3, 0) is None, "the later process may yet send it"
    assert box.deliver(arrived(4, 2, 2), "ordered", 0) == "stale"
    assert box.look(3, 0) == Skipped(3), "now it has gone past it, too"
    assert (box.look(4, 0).incarnation, len(box)) == (2, 2)


def test_rounds_are_taken_once_and_in_order():
    box = Inbox("p")
    box.deliver(arrived(1, 1, 1), "ordered", 0)
    box.deliver(arrived(3, 1, 2), "ordered", 0)
    assert box.look(1, 0).round == 1
    assert box.look(2, 0) == Skipped(2), "round 3 is here, so round 2 is not coming"
    assert box.look(4, 0) is None
    assert box.pass_by(2, 0) == 1, "round 1 lay there and was passed by"
    assert box.look(1, 0) is None
    assert box.deliver(arrived(2, 1, 3), "ordered", 0) == "stale"
    assert box.newest(0).seq == 3, "what is stale for a round may still be the newest"
    assert len(box) == 1


def test_what_was_missed_is_late_also_if_it_came_before_anyone_said_so():
    """A neighbour may resend retained parcels before a restarted peer has read its journal."""
    inbox = Inbox("a")
    for number, round in enumerate((3, 4, 5, 6), start=1):
        inbox.deliver(arrived(round, 1, number), "ordered", 0)
    assert inbox.expect((6, 0), [(4, 0), (2, 0)]) == 2  # rounds 3 and 5 are stale
    assert [found.round for found in inbox.late()] == [4]
    assert inbox.missed == {(2, 0)}
    assert inbox.look(6, 0).round == 6


def test_what_comes_for_a_gap_is_late_once_and_nothing_before_it_is_awaited():
    inbox = Inbox("a")
    for number, round in enumerate((3, 4), start=1):  # came before the gap was known
        inbox.deliver(arrived(round, 1, number), "ordered", 0)
    assert inbox.expect((9, 0), (), [Gap((4, 0), (9, 0))]) == 1  # round 3 is stale
    assert inbox.want == 4
    assert inbox.deliver(arrived(6, 1, 3), "ordered", 0) == "applied"
    assert inbox.deliver(arrived(6, 2, 1), "ordered", 0) == "stale", "sent again after a restart"
    assert inbox.deliver(arrived(5, 2, 2), "ordered", 0) == "stale"
    assert inbox.deliver(arrived(9, 2, 3), "ordered", 0) == "applied"
    assert [found.round for found in inbox.late()] == [4, 6]
    assert inbox.want == 9
    settled = Inbox("a")
    settled.expect((9, 0), (), [Gap((4, 0), (9, 0), {0: 6})])
    came = [settled.deliver(arrived(round, 1, round), "ordered", 0) for round in (5, 6, 7)]
    assert came == ["stale", "stale", "applied"], "an earlier process had rounds up to 6"
    assert [found.round for found in settled.late()] == [7]


def test_what_is_late_takes_no_room_where_nobody_asks_for_it():
    inbox = Inbox("a", keeps_late=False)
    for round in range(1, 5):
        inbox.give_up(round, 0)
    came = [inbox.deliver(arrived(round, 1, round), "ordered", 0) for round in range(1, 6)]
    assert came == ["stale"] * 4 + ["applied"]
    assert (inbox.late(), inbox.uncovered, inbox.floor) == ([], 0, (4, 1))
    assert inbox.expect((6, 0), [(5, 0)]) == 1
    assert (inbox.late(), inbox.uncovered) == ([], 0)


def test_who_does_two_rounds_for_each_one_here_catches_up():
    inbox = Inbox("a")
    inbox.deliver(arrived(3, 1, 1), "ordered", 0)
    assert not inbox.catches_up(10), "it was never given up"
    inbox.give_up(10, 0)
    assert not inbox.catches_up(11)
    inbox.deliver(arrived(4, 1, 2), "ordered", 0)
    assert not inbox.catches_up(11), "one for one would leave it behind for ever"
    inbox.deliver(arrived(5, 1, 3), "ordered", 0)
    assert inbox.catches_up(11)
    assert not inbox.catches_up(12), "two rounds have passed here"
    inbox.deliver(arrived(12, 1, 4), "ordered", 0)
    assert not inbox.catches_up(12), "it is there"


def test_a_restarted_sender_may_go_back_behind_its_promise():
    box = Inbox("p")
    box.skip(9, 0, (1, 1), 0)
    assert box.look(5, 0) == Skipped(5, promised=True)
    box.deliver(arrived(4, 2, 1), "ordered", 0)
    assert box.look(5, 0) is None


def test_other_epochs_are_refused():
    box = Inbox("p")
    for epoch, why in ((1, "stale_epoch"), (3, "epoch_ahead")):
        with pytest.raises(RefusedError, match=why):
            box.deliver(arrived(1, 1, 1, epoch=epoch), "ordered", 2)
    assert box.last == (0, 0)
