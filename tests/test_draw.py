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
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text):
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_philox_gives_the_published_answers(counter, key, answer):
    found = philox(tuple(np.array([word], np.uint64) for word in words(counter)), tuple(words(key)))
    assert [int(word[0]) for word in found] == words(answer)


def test_philox_treats_each_counter_of_an_array_by_itself():
    counters = [np.array(column, np.uint64) for column in zip(*(words(known[0]) for known in KNOWN), strict=True)]
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


@given(first=st.integers(0, 500), steps=st.lists(st.sampled_from([-257, -256, -1, 0, 1, 2, 255, 256, 257]), max_size=12))
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
        uniform(3, "batch", t, np.array(ids), lanes=2), uniform(3, "batch", t, np.array(ids), lanes=5)[:, :2]
    )


def test_many_rounds_at_once_are_the_rounds_one_by_one():
    ids, rounds = np.arange(4), np.array([0, 7, 3, 10**6])
    together = uniform(5, "node", rounds, ids, lanes=3)
    assert np.array_equal(together, np.stack([uniform(5, "node", int(t), ids, lanes=3) for t in rounds]))


def test_once_is_a_draw_that_belongs_to_no_round():
    assert np.array_equal(Draws(4).once("partition", np.arange(6), 2), uniform(4, "partition", 0, np.arange(6), 2))


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
    assert not len(np.intersect1d(u, w))  # 53 bits: by chance this happens once in five million tests


@pytest.mark.parametrize("name", SEQUENCES)
def test_neighbours_in_a_sequence_are_unrelated(name):
    u = SEQUENCES[name]
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 4.5 / np.sqrt(LONG)
    cells = np.histogram2d(u[:-1:2], u[1::2], bins=8, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(cells.ravel()).pvalue > 1e-4


def philox_4x64(counter, key):
    """Philox 4x64-10 in whole numbers, from the paper."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        mask = 2**64 - 1
        c = [(p1 >> 64) ^ c[1] ^ k[0], p1 & mask, (p0 >> 64) ^ c[3] ^ k[1], p0 & mask]
        k = [(k[0] + 0x9E3779B97F4A7C15) & mask, (k[1] + 0xBB67AE8584CAA73B) & mask]
    return c


def test_the_wide_oracle_gives_the_published_answers():
    """kat_vectors of the Random123 distribution, "philox4x64 10"."""
    zero = "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b"
    assert philox_4x64([0] * 4, [0] * 2) == words(zero)
    ones = "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0"
    assert philox_4x64([2**64 - 1] * 4, [2**64 - 1] * 2) == words(ones)
    pi = words("243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89 452821e638d01377 be5466cf34e90c6c")
    assert philox_4x64(pi[:4], pi[4:]) == words("a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6")


@given(seed=st.integers(0, 2**63), t=st.integers(0, 2**40), ids=st.lists(st.integers(0, 2**50), max_size=4))
def test_bulk_words_are_philox_of_their_name(seed, t, ids):
    found = bulk(seed, "demo", t, np.array(ids, np.int64), 9)
    key = int.from_bytes(hashlib.blake2b(f"{seed}/demo".encode(), digest_size=16).digest(), "little")
    for row, id in zip(found, ids, strict=True):
        blocks = [philox_4x64([block, id, t, 0], [key % 2**64, key >> 64]) for block in (1, 2, 3)]
        assert row.tolist() == [word for block in blocks for word in block][:9]
