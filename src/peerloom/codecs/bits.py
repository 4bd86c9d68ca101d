"""Bit packing on arrays: numbers of one width, Elias codes of whole numbers, sets of positions.

Functions are pure and work on one row. Words are big-endian bit strings, the most significant bit
first within a byte, so that a body has the same bytes on every machine. The last byte of a run is
filled up with zeros, and a decoder refuses anything else there.

Here and in the codecs, numbers are picked by `flatnonzero` and `take`: picking by truth values
takes many times as long where which way it goes cannot be foreseen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Body
from ..errors import CodecError

__all__ = [
    "bitmap_nbytes",
    "elias_bits",
    "elias_fano_nbytes",
    "joined",
    "pack_elias",
    "pack_elias_fano",
    "pack_fixed",
    "position_width",
    "unpack_bitmap",
    "unpack_elias",
    "unpack_elias_fano",
    "unpack_fixed",
]

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
_BLOCK = 1 << 14  # groups of eight numbers packed together, so that temporaries stay in cache
_MOST_DIGITS = 52  # of a level: float64 holds all whole numbers of so many


def joined(*runs: NDArray[Any]) -> Body:
    """Join runs of bytes or numbers, as they lie in memory, to one read-only body."""
    body = np.concatenate([np.atleast_1d(run).view(np.uint8) for run in runs])
    body.flags.writeable = False
    return body


# -- one bit each


def bitmap_nbytes(count: int) -> int:
    """Return the length of a bitmap; `numpy.packbits` writes it."""
    return -(-count // 8)


def unpack_bitmap(body: Body, count: int) -> Bools:
    """Read a bitmap of `count` bits."""
    _check_length(body, bitmap_nbytes(count))
    found = np.unpackbits(body)
    _check_rest(found[count:])
    return found[:count].view(np.bool_)


# -- numbers of one width


def position_width(n: int) -> int:
    """Return ceil(log2 n), the bits that tell n positions apart; 1 for a single one."""
    return max(1, (n - 1).bit_length())


def pack_fixed(values: NDArray[Any], width: int) -> Body:
    """Write whole numbers in [0, 2^width) one after the other: ceil(count * width / 8) bytes.

    Eight numbers fill exactly `width` bytes. Each output byte is a few shifted columns, so that the
    work is done on columns.
    """
    count = len(values)
    groups = -(-count // 8)
    kind = _column_type(width)
    out = np.empty((groups, width), np.uint8)
    for first in range(0, groups, _BLOCK):
        part = values[8 * first : 8 * (first + _BLOCK)]
        whole, rest = divmod(len(part), 8)
        columns = np.zeros((8, -(-len(part) // 8)), kind)
        columns[:, :whole] = part[: 8 * whole].reshape(-1, 8).T
        columns[:rest, whole:] = part[8 * whole :, None]
        for byte in range(width):
            found = np.zeros(columns.shape[1], kind)
            for k in range(8 * byte // width, min(7, (8 * byte + 7) // width) + 1):
                # How far the last bit of the number lies from the last bit of the byte.
                shift = 8 * (byte + 1) - (k + 1) * width
                found |= columns[k] << kind(shift) if shift >= 0 else columns[k] >> kind(-shift)
            out[first : first + columns.shape[1], byte] = found  # keeps the low eight bits
    return out.reshape(-1)[: -(-count * width // 8)]


def unpack_fixed(body: Body, count: int, width: int) -> Ints:
    """Read what `pack_fixed` wrote."""
    _check_length(body, -(-count * width // 8))
    groups = -(-count // 8)
    kind = _column_type(width)
    padded = np.zeros(groups * width, np.uint8)
    padded[: len(body)] = body
    grid, out = padded.reshape(groups, width), np.empty((groups, 8), np.int64)
    mask = kind((1 << width) - 1)
    for first in range(0, groups, _BLOCK):
        columns = np.ascontiguousarray(grid[first : first + _BLOCK].T).astype(kind)
        for k in range(8):
            found = np.zeros(columns.shape[1], kind)
            for byte in range(k * width // 8, (k * width + width - 1) // 8 + 1):
                shift = (k + 1) * width - 8 * (byte + 1)
                column = columns[byte]
                found |= column << kind(shift) if shift >= 0 else column >> kind(-shift)
            out[first : first + _BLOCK, k] = found & mask
    flat = out.reshape(-1)
    _check_rest(flat[count:])
    return flat[:count]


def _column_type(width: int) -> type[np.unsignedinteger[Any]]:
    """Return the shortest word that holds a number of this width, shifted within a byte."""
    return np.uint16 if width <= 8 else np.uint32 if width <= 24 else np.uint64


# -- Elias codes: whole numbers m >= 1 in 1 + 2 floor(log2 m) bits each


def elias_bits(levels: NDArray[Any], largest: int) -> Ints:
    """Return the bits of the codes of 1 + |levels| of each row; `largest` is their largest size."""
    bits: Ints = levels.shape[1] + 2 * _count_rows(levels != 0)
    if largest >= 3:
        sizes = np.abs(levels)
        for digits in range(2, (largest + 1).bit_length()):
            bits += 2 * _count_rows(sizes >= 2**digits - 1)
    return bits


def pack_elias(sizes: NDArray[Any]) -> list[Body]:
    """Write the codes of 1 + sizes as runs of single bits, one uint8 each.

    The j-th pair of runs says which of the numbers with j digits or more have yet another, and the
    j-th digit, from the least, of those that have. As many bits as Elias gamma codes one after the
    other, but both ends work on whole arrays.
    """
    m, runs = sizes + 1, list[Body]()
    while True:
        j = len(runs) // 2
        more = m >= 2 << j
        runs.append(more.view(np.uint8))
        m = m.take(np.flatnonzero(more))
        if not len(m):
            return runs
        runs.append(((m >> j) & 1).astype(np.uint8))


def unpack_elias(bits: Body, count: int) -> tuple[Ints, int]:
    """Read `count` codes from single bits: sizes, and how many bits they took."""
    low, end = np.zeros(count, np.int64), 0
    steps = list[tuple[Ints, Ints]]()  # the digits so far of those that are left, and who has more
    while len(low):
        more = bits[end : end + len(low)].view(np.bool_)
        at = np.flatnonzero(more)
        end += len(low)
        digit = bits[end : end + len(at)]
        end += len(at)
        if len(bits) < end or len(steps) > _MOST_DIGITS:
            raise CodecError("wrong_levels", "the code does not end")
        steps.append((low, at))
        low = low.take(at) | digit.astype(np.int64) << (len(steps) - 1)
    found = np.zeros(0, np.int64)
    for j, (digits, at) in reversed(list(enumerate(steps))):
        digits += 1 << j
        digits[at] = found
        found = digits
    found -= 1
    return found, end


# -- rising positions: k of n


def elias_fano_nbytes(n: int, k: int) -> int:
    """Return the length of every set of k of n: a bitmap of high parts, and k low parts."""
    low = _low_bits(n, k)
    return bitmap_nbytes(k + ((n - 1) >> low) + 1) + -(-k * low // 8)


def pack_elias_fano(positions: Ints, n: int) -> list[Body]:
    """Write rising positions in about 2 + log2(n / k) bits each; plain numbers take log2 n."""
    k = len(positions)
    low = _low_bits(n, k)
    high = np.zeros(k + ((n - 1) >> low) + 1, np.uint8)
    high[(positions >> low) + np.arange(k)] = 1
    runs = [np.packbits(high)]
    return [*runs, pack_fixed(positions & ((1 << low) - 1), low)] if low else runs


def unpack_elias_fano(body: Body, n: int, k: int) -> Ints:
    """Read k positions; whether they rise and lie below n is for the caller to check."""
    low = _low_bits(n, k)
    count = k + ((n - 1) >> low) + 1
    split = bitmap_nbytes(count)
    _check_length(body, elias_fano_nbytes(n, k))
    high = np.flatnonzero(unpack_bitmap(body[:split], count))
    if len(high) != k:
        raise CodecError("wrong_positions", f"{len(high)} in place of {k}")
    found = (high - np.arange(k)) << low
    return found | unpack_fixed(body[split:], k, low) if low else found


def _low_bits(n: int, k: int) -> int:
    return max(0, (n // k).bit_length() - 1)


def _count_rows(chosen: Bools) -> Ints:
    """Count the chosen of each row, row by row: along an axis it takes several times as long."""
    return np.array([np.count_nonzero(row) for row in chosen])


def _check_length(body: Body, length: int) -> None:
    if len(body) != length:
        raise CodecError("wrong_shape", f"{len(body)} bytes in place of {length}")


def _check_rest(rest: NDArray[Any]) -> None:
    if rest.any():
        raise CodecError("wrong_shape", "bits after the last one")
