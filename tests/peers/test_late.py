"""What came late, from its arrival until checkpoints hold what became of it."""

from collections import Counter

import numpy as np
import pytest

from peerloom.peers.late import LateParcels
from peerloom.transport import Gap, Parcel

PEERS = ["a", "b", "c"]


class Arrivals:
    """The part of a transport that late parcels come from."""

    def __init__(self):
        self.there, self.covered = {peer: [] for peer in PEERS}, Counter()

    def late(self, peer):
        found, self.there[peer] = self.there[peer], []
        return found

    def cover(self, peer, count):
        self.covered[peer] += count

    def bring(self, row, *places):
        for round, mix_index in places:
            body = np.full(3, round, np.uint8)
            self.there[PEERS[row]].append(Parcel(mix_index, round, mix_index, body, PEERS[row]))


@pytest.fixture
def arrivals():
    return Arrivals()


@pytest.fixture
def late(arrivals):
    return LateParcels(arrivals, PEERS, None)


def held(late):
    return [(row, parcel.round, parcel.mix_index) for row, parcel in late.waiting()]


def kept(late, t):
    pieces = late.memory(t)
    return {name: np.concatenate(piece) for name, piece in pieces.items()}


def every(parcel):
    return True


def test_what_does_not_matter_gives_its_room_back_at_once(late, arrivals):
    arrivals.bring(1, (3, 1), (4, 1))
    late.collect(1, lambda parcel: parcel.round == 4)
    assert (held(late), arrivals.covered) == ([(1, 4, 1)], {"b": 1})


def test_what_turns_out_not_to_matter_is_forgotten(late, arrivals):
    """In the midst of a mixing nobody knows yet whether what was given up in it matters."""
    arrivals.bring(1, (3, 1), (4, 1))
    late.collect(1, every)
    late.collect(2, lambda parcel: False)
    assert held(late) == [(1, 3, 1), (1, 4, 1)], "another row's"
    late.collect(1, lambda parcel: parcel.round == 4)
    assert held(late) == [(1, 4, 1)]
    late.saved(5)
    late.saved(6)
    assert arrivals.covered == {"b": 2}, "each parcel once"


def test_room_is_given_back_when_two_checkpoints_hold_it(late, arrivals):
    arrivals.bring(1, (3, 1), (4, 1))
    late.collect(1, every)
    late.hand_over(6, [(1, (3, 1))])
    assert held(late) == [(1, 4, 1)]
    assert kept(late, 5)["late-about"][:, :3].tolist() == [[1, 3, 1], [1, 4, 1]]
    assert kept(late, 6)["late-about"][:, :3].tolist() == [[1, 4, 1]], "round 6 was handed it"
    late.saved(6)
    assert not arrivals.covered
    late.saved(7)
    assert arrivals.covered == {"b": 2}
    late.saved(8)
    assert arrivals.covered == {"b": 2}


def test_a_process_goes_on_with_what_a_checkpoint_holds(late, arrivals):
    arrivals.bring(1, (3, 1), (4, 2))
    arrivals.bring(2, (3, 1))
    for row in (1, 2):
        late.collect(row, every)
    again = LateParcels(arrivals, PEERS, None)
    again.resume(kept(late, 5))
    assert held(again) == held(late)
    assert [parcel.body.tolist() for _, parcel in again.waiting()] == [[3] * 3, [4] * 3, [3] * 3]
    owed = again.missing({1: [(3, 1), (3, 2)], 0: [(1, 1)]})
    assert owed == {"b": [(3, 2)], "a": [(1, 1)]}, "what is here is not owed"
    gaps = again.narrowed({1: [Gap((2, 0), (9, 0), {1: 2})], 0: [Gap((2, 0), (9, 0))]})
    holds = [place for place in ((3, 1), (4, 1), (4, 2), (5, 2)) if gaps["b"][0].holds(place)]
    assert holds == [(4, 1), (5, 2)], "it comes in order, mixing by mixing"
    assert gaps["a"] == [Gap((2, 0), (9, 0))]
