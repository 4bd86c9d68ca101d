"""Wide rows are worked on in runs of coordinates, with the bits of rows worked on whole."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom.codecs import Coordinates, Dense
from peerloom.core import (
    ByteDelivery,
    CodedWire,
    Draws,
    LateBody,
    Links,
    Placement,
    WordCodec,
    average,
    equal_average,
    pull,
    push,
    wire,
)
from peerloom.core.link_mixer import LinkMixer

OFFERS = (pull, push, average, equal_average)
LINKS = Links.make(
    3, [0, 0, 1, 2, 2], [1, 2, 0, 0, 1], [0.3, 0.2, 0.4, 0.1, 0.35], [0.25, 0.3, 0.1, 0.4, 0.2]
)
TAG = (4, 1)


class Neighbours:
    """Brings the row that each link's sender would send, late ones besides; keeps what is sent."""

    def __init__(self, bodies, late=()):
        self._bodies, self._late, self.sent = bodies, late, []

    def exchange(self, tag, links, out, bodies, into):
        self.sent += bodies
        came = [self._bodies[k] for k in links.src[into].tolist()]
        return ByteDelivery(came, np.ones(len(into), bool), np.ones(len(out), bool), self._late)


class Spool:
    """Keeps messages in memory, and how they came."""

    def __init__(self, least):
        self.least, self.pieces = least, []

    def write(self, tag, nbytes, pieces):
        self.pieces.append([piece.copy() for piece in pieces])
        found = np.concatenate(self.pieces[-1])
        assert (tag, len(found)) == (TAG, nbytes)
        found.flags.writeable = False
        return found


def rows_of(seed, rows, n, dtype):
    found = torch.from_numpy(np.random.default_rng(seed).standard_normal((rows, n))).to(dtype)
    found[:, ::7] = -0.0
    return found


def mixed(seed, n, dtype, codec, late, spool=None):
    """Row 0 mixes all offers with what the others send; also what it sent."""
    place = Placement(np.array([0]), 3, torch.device("cpu"), dtype)
    theirs = [rows_of(seed + k, 3, n, dtype) for k in range(len(OFFERS))]
    every = [
        np.concatenate([codec.encode(part[k : k + 1], None)[0] for part in theirs])
        for k in range(3)
    ]
    overdue = [LateBody((2, 1), 0, every[2], every[0]), LateBody((3, 1), 1, every[1])]
    neighbours = Neighbours(every, tuple(overdue) if late else ())
    coded = CodedWire(codec, Draws(0), place.rows, neighbours, spool)
    here = np.array([0, -1, -1])
    offers = [make(part[:1]) for make, part in zip(OFFERS, theirs, strict=True)]
    out, into = np.flatnonzero(LINKS.src == 0), np.flatnonzero(LINKS.dst == 0)
    found = LinkMixer(place, here, coded)(offers, LINKS, out, into, TAG)
    return found, neighbours.sent


@pytest.mark.parametrize("codec", [Dense(), Dense("float16"), Dense("bfloat16")], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32), n=st.integers(1, 90), piece=st.integers(8, 400), late=st.booleans()
)
def test_mixing_and_encoding_in_pieces_change_no_bit(codec, dtype, seed, n, piece, late):
    whole, sent = mixed(seed, n, dtype, codec, late)
    spool = Spool(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "_PIECE", piece)
        cut, spooled = mixed(seed, n, dtype, codec, late, spool)
    for left, right in zip(whole.values, cut.values, strict=True):
        assert left.numpy().tobytes() == right.numpy().tobytes()
    assert [body.tobytes() for body in sent] == [body.tobytes() for body in spooled]
    assert len(spool.pieces) == 1  # once for both receivers
    assert max(map(len, spool.pieces[0])) <= piece
    if dtype.itemsize * n > piece:
        assert len(spool.pieces[0]) > len(OFFERS)
    for left, right in zip(whole.lengths, cut.lengths, strict=True):
        assert np.array_equal(left, right)


def test_pieces_stay_small_in_memory():
    """What mixing needs beside the result does not grow with the rows."""
    import tracemalloc

    n = 1 << 22  # 16 MB
    x = torch.ones(1, n)
    body = np.ones(n, np.float32).view(np.uint8)
    place = Placement(np.array([0]), 3, torch.device("cpu"), torch.float32)
    coded = CodedWire(Dense(), Draws(0), place.rows, Neighbours([body] * 3), Spool(1 << 40))
    mixer = LinkMixer(place, np.array([0, -1, -1]), coded)
    tracemalloc.start()  # it sees NumPy's memory: every piece that is decoded
    mixer([pull(x)], LINKS, np.empty(0, np.int64), np.flatnonzero(LINKS.dst == 0), TAG)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.nbytes / 2


def test_only_codecs_of_words_are_cut():
    assert isinstance(Dense(), WordCodec)
    assert not isinstance(Coordinates(0.5), WordCodec)


def test_a_codec_that_writes_no_words_is_spooled_whole():
    spool = Spool(1)
    place = Placement(np.array([0]), 3, torch.device("cpu"), torch.float64)
    x = rows_of(1, 1, 40, torch.float64)
    codec = Coordinates(0.5)
    neighbours = Neighbours([])
    coded = CodedWire(codec, Draws(0), place.rows, neighbours, spool)
    out = np.flatnonzero(LINKS.src == 0)
    part = pull(x).part
    coded.exchange(TAG, LINKS, out, [x], np.empty(0, np.int64), (part,))
    plain = Neighbours([])
    CodedWire(codec, Draws(0), place.rows, plain).exchange(
        TAG, LINKS, out, [x], np.empty(0, np.int64), (part,)
    )
    assert [b.tobytes() for b in neighbours.sent] == [b.tobytes() for b in plain.sent]
    assert [len(pieces) for pieces in spool.pieces] == [1] * len(out)
