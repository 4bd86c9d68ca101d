"""Bit packing: what is read is what was written, bit by bit as it is defined."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerloom.codecs import bits
from peerloom.errors import CodecError


@given(width=st.integers(1, 40), count=st.integers(0, 100), seed=st.integers(0, 999))
def test_numbers_of_fixed_width_are_packed_without_gaps_and_come_back(width, count, seed):
    values = np.random.default_rng(seed).integers(0, 2**width, count)
    body = bits.pack_fixed(values, width)
    assert len(body) == -(-count * width // 8)
    assert bits.unpack_fixed(body, count, width).tolist() == values.tolist()
    digits = "".join(f"{value:0{width}b}" for value in values.tolist())
    assert np.unpackbits(body)[: count * width].tolist() == [int(digit) for digit in digits]


def test_numbers_packed_in_several_blocks_come_back():
    values = np.random.default_rng(0).integers(0, 2**13, 3 * 8 * bits._BLOCK + 5)
    assert (bits.unpack_fixed(bits.pack_fixed(values, 13), len(values), 13) == values).all()


@given(st.lists(st.integers(0, 2**40) | st.integers(0, 3), max_size=60))
def test_elias_codes_have_their_length_and_come_back(sizes):
    values = np.array(sizes, np.int64)
    runs = np.concatenate(bits.pack_elias(values))
    assert (
        len(runs)
        == bits.elias_bits(values[None], max(sizes, default=0))[0]
        == sum(1 + 2 * ((1 + size).bit_length() - 1) for size in sizes)
    )
    found, end = bits.unpack_elias(np.append(runs, np.uint8(1)), len(sizes))
    assert found.tolist() == sizes
    assert end == len(runs)


def test_an_elias_code_that_does_not_end_is_refused():
    with pytest.raises(CodecError, match="does not end"):
        bits.unpack_elias(np.ones(10_000, np.uint8), 1)
    with pytest.raises(CodecError, match="does not end"):
        bits.unpack_elias(np.ones(3, np.uint8), 3)


@given(n=st.integers(1, 5000), seed=st.integers(0, 999), share=st.floats(0, 1))
def test_elias_fano_positions_have_their_length_and_come_back(n, seed, share):
    k = max(1, int(share * n))
    at = np.sort(np.random.default_rng(seed).permutation(n)[:k])
    body = np.concatenate(bits.pack_elias_fano(at, n))
    assert len(body) == bits.elias_fano_nbytes(n, k)
    assert bits.unpack_elias_fano(body, n, k).tolist() == at.tolist()
    assert 8 * len(body) <= k * (2 + max(0, int(np.log2(n / k)))) + 2 * k + 24


@given(st.lists(st.booleans(), max_size=40))
def test_bitmaps_come_back(flags):
    body = np.packbits(np.array(flags, bool))
    assert bits.unpack_bitmap(body, len(flags)).tolist() == flags


def test_bits_after_the_last_are_refused():
    for read in (
        lambda body: bits.unpack_bitmap(body, 5),
        lambda body: bits.unpack_fixed(body, 1, 5),
    ):
        read(np.array([0b10111000], np.uint8))
        with pytest.raises(CodecError, match="after the last"):
            read(np.array([0b10111001], np.uint8))
        with pytest.raises(CodecError, match="2 bytes in place of 1"):
            read(np.array([0, 0], np.uint8))
