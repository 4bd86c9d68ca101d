"""Draws are Philox, and a pure function of (seed, stream, round, id, lane)."""

import contextlib
import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from peerloom.core import Draws, uniform
from peerloom.core import words as bulk
from peerloom.core.draw import philox

LONG = 40_000

# kat_vectors of the Random123 distribution, "philox4x32 10": counter, key, answer.
KNOWN = [
    (
        "00000000 00000000 00000000 00000000",
        "00000000 00000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def words(text):
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_philox_gives_the_published_answers(counter, key, answer):
    found = philox(tuple(np.array([word], np.uint64) for word in words(counter)), tuple(words(key)))
    assert [int(word[0]) for word in found] == words(answer)


def test_philox_treats_each_counter_of_an_array_by_itself():
    counters = [
        np.array(column, np.uint64)
        for column in zip(*(words(known[0]) for known in KNOWN), strict=True)
    ]
    together = philox(tuple(counters), (1, 2))
    for k in range(len(KNOWN)):
        alone = philox(tuple(column[k : k + 1] for column in counters), (1, 2))
        assert [int(word[k]) for word in together] == [int(word[0]) for word in alone]


requests = st.tuples(
    st.sampled_from(["node", "batch"]),
    st.integers(0, 2000),
    st.lists(st.integers(0, 2**40), min_size=1, max_size=5, unique=True),
    st.integers(1, 5),
)


@given(seed=st.integers(0, 2**63), asked=st.lists(requests, min_size=1, max_size=12))
def test_draws_read_ahead_equal_single_draws(seed, asked):
    draws = Draws(seed)
    for stream, t, ids, lanes in asked:
        wanted = uniform(seed, stream, t, np.array(ids), lanes)
        assert wanted.shape == (len(ids), lanes)
        assert np.array_equal(draws(stream, t, np.array(ids), lanes), wanted)


@given(
    first=st.integers(0, 500),
    steps=st.lists(st.sampled_from([-257, -256, -1, 0, 1, 2, 255, 256, 257]), max_size=12),
)
def test_going_back_and_forth_between_rounds_changes_no_draw(first, steps):
    draws, ids, t = Draws(1), np.arange(3), first
    for step in [0, *steps]:
        t = max(0, t + step)
        assert np.array_equal(draws("node", t, ids), uniform(1, "node", t, ids))


@given(st.integers(0, 10**6), st.permutations(list(range(300, 309))), st.integers(1, 9))
def test_a_draw_does_not_depend_on_who_else_draws(t, ids, some):
    whole = dict(zip(ids, uniform(3, "batch", t, np.array(ids), lanes=3), strict=True))
    part = uniform(3, "batch", t, np.array(ids[:some]), lanes=3)
    assert all(np.array_equal(whole[i], row) for i, row in zip(ids[:some], part, strict=True))
    assert np.array_equal(
        uniform(3, "batch", t, np.array(ids), lanes=2),
        uniform(3, "batch", t, np.array(ids), lanes=5)[:, :2],
    )


def test_many_rounds_at_once_are_the_rounds_one_by_one():
    ids, rounds = np.arange(4), np.array([0, 7, 3, 10**6])
    together = uniform(5, "node", rounds, ids, lanes=3)
    assert np.array_equal(
        together, np.stack([uniform(5, "node", int(t), ids, lanes=3) for t in rounds])
    )


def test_once_is_a_draw_that_belongs_to_no_round():
    assert np.array_equal(
        Draws(4).once("partition", np.arange(6), 2), uniform(4, "partition", 0, np.arange(6), 2)
    )


def test_ids_above_32_bits_have_draws_of_their_own():
    ids = np.array([5, 5 + 2**32, 5 + 2**33, 5 + 2**40])
    assert len(np.unique(uniform(1, "link", 0, ids, lanes=4))) == 16


def test_changing_the_ids_array_changes_the_draws():
    draws, ids = Draws(0), np.arange(3)
    draws("node", 1, ids)
    ids += 10
    assert np.array_equal(draws("node", 1, ids), uniform(0, "node", 1, np.arange(10, 13)))


def test_nobody_can_change_a_draw_by_writing_to_it():
    draws, ids = Draws(0), np.arange(3)
    found = draws("node", 1, ids)
    with contextlib.suppress(ValueError):  # read-only is as good as a copy
        found *= 0
    assert np.array_equal(draws("node", 1, ids), uniform(0, "node", 1, ids))


def sequences():
    """Long sequences along each axis, and ones that differ in a single part of the name."""
    ids, rounds = np.arange(LONG), np.arange(LONG)
    some = np.array([0])
    return {
        "ids": uniform(1, "node", 0, ids)[:, 0],
        "next round": uniform(1, "node", 1, ids)[:, 0],
        "next seed": uniform(2, "node", 0, ids)[:, 0],
        "other stream": uniform(1, "link", 0, ids)[:, 0],
        "longer stream": uniform(1, "node/", 0, ids)[:, 0],
        "next ids": uniform(1, "node", 0, ids + LONG)[:, 0],
        "high ids": uniform(1, "node", 0, ids + 2**32)[:, 0],
        "second lane": uniform(1, "node", 0, ids, 2)[:, 1],
        "third lane": uniform(1, "node", 0, ids, 3)[:, 2],
        "rounds": uniform(1, "node", rounds + 10, some)[:, 0, 0],
        "rounds of the next id": uniform(1, "node", rounds + 10, some + 1)[:, 0, 0],
        "lanes": uniform(1, "batch", 0, some, LONG)[0],
    }


SEQUENCES = sequences()


@pytest.mark.parametrize("name", SEQUENCES)
def test_draws_are_uniform_on_the_half_open_interval(name):
    u = SEQUENCES[name]
    assert u.min() >= 0
    assert u.max() < 1
    counts = np.histogram(u, bins=64, range=(0, 1))[0]
    assert stats.chisquare(counts).pvalue > 1e-4
    assert stats.kstest(u, "uniform").pvalue > 1e-4
    low_bits = (u * 2**53).astype(np.int64) % 64  # the last bits are as random as the first
    assert stats.chisquare(np.bincount(low_bits, minlength=64)).pvalue > 1e-4


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(SEQUENCES, 2)))
def test_draws_with_different_names_are_unrelated(one, other):
    u, w = SEQUENCES[one], SEQUENCES[other]
    assert abs(np.corrcoef(u, w)[0, 1]) < 4.5 / np.sqrt(LONG)
    # 53 bits: by chance this happens once in five million tests.
    assert not len(np.intersect1d(u, w))


@pytest.mark.parametrize("name", SEQUENCES)
def test_neighbours_in_a_sequence_are_unrelated(name):
    u = SEQUENCES[name]
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 4.5 / np.sqrt(LONG)
    cells = np.histogram2d(u[:-1:2], u[1::2], bins=8, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(cells.ravel()).pvalue > 1e-4


def dxsm(start, step, place, count):
    """`count` words of PCG64DXSM, in Python's integers, from an offset of a stream.

    A 128-bit start and an odd step choose the stream. The generator is s <- a s + step; its words
    are s itself, mixed: double xorshift, multiply. After k steps s is
    a^k s + step (a^k - 1) / (a - 1), all modulo 2^128.
    """
    a, mask, wide = 0xDA942042E4DD58B5, 2**64 - 1, 2**128
    power = pow(a, place, (a - 1) * wide)
    s, found = (power * start + step * ((power - 1) // (a - 1))) % wide, []
    for _ in range(count):
        high, low = s >> 64, (s & mask) | 1
        high = ((high ^ (high >> 32)) * a) & mask
        found.append(((high ^ (high >> 48)) * low) & mask)
        s = (a * s + step) % wide
    return found


@given(
    seed=st.integers(0, 2**63),
    t=st.integers(0, 2**40),
    ids=st.lists(st.integers(0, 2**50), max_size=4),
)
def test_bulk_words_are_places_of_one_stream(seed, t, ids):
    ids = [*ids, *(id + 1 for id in ids[-1:]), 3, 4, 5]  # some follow each other
    found = bulk(seed, "demo", t, np.array(ids, np.int64), 9)
    digest = hashlib.blake2b(f"{seed}/demo/{t}/9".encode(), digest_size=32).digest()
    start, step = int.from_bytes(digest[:16], "little"), int.from_bytes(digest[16:], "little") | 1
    for row, id in zip(found, ids, strict=True):
        assert row.tolist() == dxsm(start, step, 9 * id, 9)
